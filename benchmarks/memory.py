"""Peak memory and time of one training step at growing context, ours beside its peers.

    python -m benchmarks.memory [--json] [--tokens 2048 4096 8192] [--modes MODE ...]

Peers: plain autograd, transformers' checkpointing, and that with torch's chunked linear
cross-entropy; and, after `make peers`, the authors' own StreamBP (`reference_streambp`), whose loss is
reported, not held against it. Ours: every policy that `attach` offers. Memory is counted above weights
and gradients, the median of all rounds; time is CPU time, the least of them. Ratios are taken at the
longest context, peer over ours for memory and ours over peer for time; `max_context` is the longest
context that was *measured* to stay in the budget.
"""

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import (
    CHUNKED_CE,
    OURS_LEAST,
    PEERS,
    REFERENCE,
    Case,
    Measured,
    reference_installed,
    run_all,
)
from benchmarks.compare import BUDGET_GIB, GIB, check_losses, gathered, report_of
from benchmarks.contexts import longest_context
from benchmarks.planned import planned_bytes
from benchmarks.steps import policies

MIB = 2**20


def main() -> None:
    """Measure and print."""
    options = _options()
    modes = [mode for mode in options.modes if mode != REFERENCE or reference_installed()]
    case = Case(
        OURS_LEAST,
        0,
        options.chunk_tokens,
        options.head_chunk_tokens,
        threads=options.threads,
        steady_heap=options.steady_heap,
    )
    cases = [
        replace(case, mode=mode, tokens=tokens)
        for _ in range(options.rounds)
        for tokens in sorted(options.tokens)
        for mode in modes
    ]
    figures = gathered(list(run_all(cases)))
    check_losses(figures)
    contexts = {}
    if not options.no_context:
        contexts = {
            mode: longest_context(
                [m for m in figures if m.mode == mode],
                lambda tokens, mode=mode: (
                    next(run_all([replace(case, mode=mode, tokens=tokens)])).memory_bytes
                ),
                int(BUDGET_GIB * GIB),
            )
            for mode in (CHUNKED_CE, OURS_LEAST)
            if mode in modes
        }

    def planned(measured: Measured) -> int:
        return planned_bytes(replace(case, mode=measured.mode, tokens=measured.tokens))

    report = {**setting(case), **report_of(figures, contexts, planned)}
    if options.json:
        print(json.dumps(report))
    else:
        show(figures, report)


def setting(case: Case) -> dict[str, Any]:
    """What was the same in all cases."""
    return {
        "chunk_tokens": case.chunk_tokens,
        "head_chunk_tokens": case.head_chunk_tokens,
        "threads": case.threads,
        "steady_heap": case.steady_heap,
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--modes", nargs="+", default=[*PEERS, REFERENCE, *policies("cpu")])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunk-tokens", type=int, default=320)
    parser.add_argument("--head-chunk-tokens", type=int, default=128)
    parser.add_argument(
        "--steady-heap", action="store_true", help="map each block by itself (see benchmarks.cases)"
    )
    parser.add_argument("--no-context", action="store_true", help="skip the longest contexts")
    return parser.parse_args()


def show(figures: list[Measured], report: dict[str, Any]) -> None:
    """Print a table, and the ratios below it."""
    table = Table("mode", "tokens", "MiB above weights and gradients", "CPU s", "wall s", "loss")
    for m in figures:
        memory = f"{m.memory_bytes / MIB:.0f}"
        table.add_row(
            m.mode, str(m.tokens), memory, f"{m.cpu_s:.1f}", f"{m.wall_s:.1f}", f"{m.loss:.4f}"
        )
    Console(width=110).print(table)
    for name, value in report.items():
        if name.startswith("ratio") or name in {
            "max_context",
            "memory_exponent",
            "plan",
            REFERENCE,
        }:
            print(f"{name:<48}{value}")
    for mode, found in report["policies"].items():
        print(f"{mode:<48}{found}")


if __name__ == "__main__":
    sys.exit(main())

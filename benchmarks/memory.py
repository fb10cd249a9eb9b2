"""Peak memory and time of one training step at growing context, ours beside its peers.

    python -m benchmarks.memory [--json] [--tokens 2048 4096 8192] [--modes MODE ...]

Peers: plain autograd, transformers' checkpointing, and that with torch's chunked linear
cross-entropy; and, after `make peers`, the authors' own StreamBP (`reference_streambp`), whose loss is
reported, not held against it. Ours: every policy that `attach` offers. Memory is counted above weights and
gradients; time is CPU time. Ratios are taken at the longest context, peer over ours for memory and
ours over peer for time; `max_context` is the longest context that was *measured* to stay in the budget.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.cases import (
    CHECKPOINTING,
    CHUNKED_CE,
    OURS,
    OURS_LEAST,
    PEERS,
    REFERENCE,
    Case,
    Measured,
    reference_installed,
    run_all,
)
from benchmarks.contexts import longest_context
from benchmarks.steps import policies

GIB, MIB = 2**30, 2**20
BUDGET_GIB = 0.5
SAME_LOSS = 1e-3
"""Largest relative difference between losses of the same tokens before a run is called wrong."""


class LossesDiffer(RuntimeError):
    """Modes that should compute the same number did not: their costs are not comparable."""


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
    figures = medians(list(run_all(cases)))
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
    report = {"steady_heap": options.steady_heap, **report_of(figures, contexts)}
    if options.json:
        print(json.dumps(report))
    else:
        show(figures, report)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 4096, 8192])
    parser.add_argument("--modes", nargs="+", default=[*PEERS, REFERENCE, *policies("cpu")])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunk-tokens", type=int, default=512)
    parser.add_argument("--head-chunk-tokens", type=int, default=128)
    parser.add_argument(
        "--steady-heap", action="store_true", help="map each block by itself (see benchmarks.cases)"
    )
    parser.add_argument("--no-context", action="store_true", help="skip the longest contexts")
    return parser.parse_args()


def medians(figures: list[Measured]) -> list[Measured]:
    """One figure a mode and context: the median of its rounds."""
    groups: dict[tuple[str, int], list[Measured]] = {}
    for measured in figures:
        groups.setdefault((measured.mode, measured.tokens), []).append(measured)
    return [
        Measured(
            mode,
            tokens,
            int(median(m.memory_bytes for m in group)),
            median(m.cpu_s for m in group),
            median(m.wall_s for m in group),
            group[0].loss,
        )
        for (mode, tokens), group in groups.items()
    ]


def check_losses(figures: list[Measured]) -> None:
    """Raise LossesDiffer unless all modes, the reference aside, found one loss on the same tokens."""
    first: dict[int, Measured] = {}
    for measured in figures:
        if measured.mode == REFERENCE:
            continue
        want = first.setdefault(measured.tokens, measured)
        check_same_loss(want, measured)


def check_same_loss(want: Measured, got: Measured) -> None:
    """Raise LossesDiffer unless both found one loss."""
    if not abs(got.loss - want.loss) <= SAME_LOSS * abs(want.loss):
        raise LossesDiffer(
            f"at {want.tokens} tokens {want.mode} has loss {want.loss:.5f}, "
            f"{got.mode} {got.loss:.5f}"
        )


def report_of(figures: list[Measured], contexts: dict[str, int]) -> dict[str, Any]:
    """The ratios at the longest context, for our least policy and for each; null: not measured."""
    longest = max(m.tokens for m in figures)
    at = {m.mode: m for m in figures if m.tokens == longest}
    ours = {mode: ratios(at, mode) for mode in at if mode.startswith(OURS)}
    none = dict.fromkeys(ratios(at, OURS_LEAST))
    return {
        "tokens": longest,
        "budget_gib": BUDGET_GIB,
        **ours.get(OURS_LEAST, none),
        "ratio_max_context_vs_checkpointing_chunked_ce": _over(
            contexts, OURS_LEAST, CHUNKED_CE, lambda tokens: tokens
        ),
        "max_context": contexts,
        "policies": ours,
        REFERENCE: reference(at) if reference_installed() else "not installed",
        "cases": [asdict(m) for m in figures],
    }


def reference(at: dict[str, Measured]) -> dict[str, float | None]:
    """How our least policy compares with the authors' code, and by how much of itself its loss is off.

    What is off is told from the first other mode on the same tokens.
    """
    told = next((m.loss for mode, m in at.items() if mode != REFERENCE), None)
    off = at[REFERENCE].loss / told - 1 if told and REFERENCE in at else None
    return {
        "ratio_memory": _over(at, REFERENCE, OURS_LEAST, _memory),
        "ratio_time": _over(at, OURS_LEAST, REFERENCE, _time),
        "loss_relative_difference": off,
    }


def ratios(at: dict[str, Measured], mode: str) -> dict[str, float | None]:
    """How one policy of ours compares."""
    return {
        "ratio_memory_vs_checkpointing": _over(at, CHECKPOINTING, mode, _memory),
        "ratio_memory_vs_checkpointing_chunked_ce": _over(at, CHUNKED_CE, mode, _memory),
        "ratio_time_vs_checkpointing_chunked_ce": _over(at, mode, CHUNKED_CE, _time),
    }


def _over(found: dict[str, Any], above: str, below: str, of: Callable[[Any], float]) -> Any:
    if above not in found or below not in found:
        return None
    return round(of(found[above]) / of(found[below]), 3)


def _memory(measured: Measured) -> float:
    return measured.memory_bytes


def _time(measured: Measured) -> float:
    return measured.cpu_s


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
        if name.startswith("ratio") or name in {"max_context", REFERENCE}:
            print(f"{name:<48}{value}")
    for mode, found in report["policies"].items():
        print(f"{mode:<48}{found}")


if __name__ == "__main__":
    sys.exit(main())

"""What sharing a prompt saves: its answers in rows of their own, over all in one row behind it.

    python -m benchmarks.prefix [--json] [--rounds 3] [--vocabulary 32000]

DPO with a prompt of 3/4 of the row, GRPO with eight answers and a prompt four times as long as
each. Both ways run in processes of their own, in turn in every round, as in `benchmarks.memory`,
and each process times several steps. Ratios are unshared over shared: of the least CPU time and of
the median of memory above weights and gradients. Longer rows gain less, for every answer attends to
the whole prompt either way (`--scale`). The head costs the same both ways; with a vocabulary of
4,096 it has the part of this small model that it has in one of 8 billion parameters, with 32,000 it
is more than a third. The same steps at toy size in float64 tell how far gradients differ.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from torch import Tensor

from benchmarks.cases import Case, Measured, Shape, run_all
from benchmarks.compare import check_same_loss, gathered
from benchmarks.groups import KINDS, MODES, SHARED, UNSHARED, rows_of
from benchmarks.measuring import model_of, random_ids
from benchmarks.steps import step_of
from core.streambp.widen import Widened

TOKENS = {"dpo": 1024, "grpo": 1280}
"""Of prompt and one answer."""

CHUNK_TOKENS = 1024
STEPS = 3  # timed in a process
VOCABULARY = 4096
TOY = Case(
    "", 60, chunk_tokens=24, head_chunk_tokens=7, dtype="float64",
    shape=Shape(64, layers=2, heads=4, key_heads=2, head_width=16, intermediate=96, vocabulary=97),
)  # fmt: skip
"""Chunks cross answers."""


def main() -> None:
    """Measure and print."""
    options = _options()
    differences = {name: gradient_difference(name) for name in KINDS}
    figures = gathered(list(run_all(cases(options))))
    report = report_of(figures, differences)
    if options.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        if name != "cases":
            print(f"{name:<32}{value:.3g}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--chunk-tokens", type=int, default=CHUNK_TOKENS)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows' lengths")
    return parser.parse_args()


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Both ways of both kinds, round by round."""
    case = Case("", 0, options.chunk_tokens, threads=options.threads, steps=STEPS)
    shape = replace(case.shape, vocabulary=options.vocabulary)
    for _ in range(options.rounds):
        for mode in MODES:
            tokens = int(TOKENS[mode.split("/")[0]] * options.scale)
            yield replace(case, mode=mode, tokens=tokens, shape=shape)


def report_of(figures: list[Measured], differences: dict[str, float]) -> dict[str, Any]:
    """Ratios and differences; raises LossesDiffer where both ways disagree about a loss."""
    at = {m.mode: m for m in figures}
    report: dict[str, Any] = {}
    for name in KINDS:
        apart, shared = at[f"{name}/{UNSHARED}"], at[f"{name}/{SHARED}"]
        check_same_loss(apart, shared)
        report[f"{name}_time_ratio"] = round(apart.cpu_s / shared.cpu_s, 3)
        report[f"{name}_memory_ratio"] = round(apart.memory_bytes / shared.memory_bytes, 3)
        report[f"{name}_loss_difference"] = abs(shared.loss / apart.loss - 1)
        report[f"{name}_gradient_difference"] = differences[name]
    report["gradient_difference"] = max(differences.values())
    return report | {"cases": [asdict(m) for m in figures]}


def gradient_difference(name: str, toy: Case = TOY) -> float:
    """The largest difference of a parameter's gradient in one float64 step, over its norm."""
    apart, shared = (_gradients(replace(toy, mode=f"{name}/{how}")) for how in (UNSHARED, SHARED))
    pairs = zip(apart, shared, strict=True)
    return max(float((b - a).norm() / a.norm()) for a, b in pairs)


def _gradients(case: Case) -> list[Tensor]:
    with Widened():
        model = model_of(case)
        step_of(case, model)(random_ids(case, rows_of(case.mode)))
    return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


if __name__ == "__main__":
    sys.exit(main())

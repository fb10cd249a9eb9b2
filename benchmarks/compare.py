"""How the measured cases compare: ours beside its peers, and beside what the memory plan foretold."""

from collections.abc import Callable
from dataclasses import asdict
from math import log
from statistics import linear_regression, median
from typing import Any

from benchmarks.cases import (
    CHECKPOINTING,
    CHUNKED_CE,
    OURS,
    OURS_LEAST,
    REFERENCE,
    Measured,
    reference_installed,
)

GIB = 2**30
BUDGET_GIB = 0.5
SAME_LOSS = 1e-3
"""Largest relative difference between losses of the same tokens before a run is called wrong."""


class LossesDiffer(RuntimeError):
    """Modes that should compute the same number did not: their costs are not comparable."""


def gathered(figures: list[Measured]) -> list[Measured]:
    """One figure a mode and context: of its rounds the median of memory and the least time.

    What else a machine does only adds to time.
    """
    groups: dict[tuple[str, int], list[Measured]] = {}
    for measured in figures:
        groups.setdefault((measured.mode, measured.tokens), []).append(measured)
    return [
        Measured(
            mode,
            tokens,
            int(median(m.memory_bytes for m in group)),
            min(m.cpu_s for m in group),
            min(m.wall_s for m in group),
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


def report_of(
    figures: list[Measured], contexts: dict[str, int], planned: Callable[[Measured], int]
) -> dict[str, Any]:
    """The ratios at the longest context, for our least policy and for each; null: not measured.

    `planned` gives the bytes that the memory plan foretold for a case of ours.
    """
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
        "memory_exponent": memory_exponent([m for m in figures if m.mode == OURS_LEAST]),
        "policies": ours,
        "plan": plan_errors(figures, planned),
        REFERENCE: reference(at) if reference_installed() else "not installed",
        "cases": [asdict(m) for m in figures],
    }


def memory_exponent(figures: list[Measured]) -> float | None:
    """The p of memory = c * tokens^p, fitted by least squares; None where there is one length."""
    if len({m.tokens for m in figures}) <= 1:
        return None
    tokens, memory = ([log(x) for x in column] for column in zip(
        *((m.tokens, m.memory_bytes) for m in figures), strict=True
    ))  # fmt: skip
    return round(linear_regression(tokens, memory).slope, 3)


def plan_errors(figures: list[Measured], planned: Callable[[Measured], int]) -> dict[str, float]:
    """By how much of what was measured the plan was off, by case; above 0 it foretold too much."""
    return {
        f"{m.mode} at {m.tokens}": round(planned(m) / m.memory_bytes - 1, 3)
        for m in figures
        if m.mode.startswith(OURS)
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

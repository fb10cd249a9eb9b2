"""The longest context that stays in a budget of memory, found by measuring.

Memory grows by nearly the same amount with every token, so a line through two measured points says
where to look; what counts is what was measured there.
"""

from collections.abc import Callable, Sequence

from benchmarks.cases import Measured

TRIES = 3
GRAIN = 64
CLOSE_ENOUGH = 0.97  # of the budget


def longest_context(
    known: Sequence[Measured], memory_of: Callable[[int], int], budget: int
) -> int | None:
    """The most tokens whose step was measured to need at most `budget` bytes.

    Starts from `known` points, measures up to three more with `memory_of`. None where nothing fits, or
    where fewer than two points are known.
    """
    points = {m.tokens: m.memory_bytes for m in known}
    for _ in range(TRIES):
        best = max((t for t, used in points.items() if used <= budget), default=0)
        if points.get(best, 0) >= CLOSE_ENOUGH * budget:
            break
        tokens = _where(points, budget)
        if tokens is None or tokens in points:
            break
        points[tokens] = memory_of(tokens)
    return max((tokens for tokens, used in points.items() if used <= budget), default=None)


def _where(points: dict[int, int], budget: int) -> int | None:
    """Follow the line through the two points nearest to the budget to just below it."""
    near = sorted(points, key=lambda tokens: abs(points[tokens] - budget))[:2]
    if len(near) <= 1:
        return None
    low, high = sorted(near)
    slope = (points[high] - points[low]) / (high - low)
    if slope <= 0:
        return None
    aim = 0.985 * budget  # half way between close enough and all of it
    return max(int(low + (aim - points[low]) / slope) // GRAIN * GRAIN, GRAIN)

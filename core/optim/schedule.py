"""Learning-rate schedules as pure functions of the step: nothing to save, nothing to resume.

Each returns the factor on the peak learning rate for the 0-based `step` about to be taken. The
warm-up rises as (step + 1) / warmup_steps, so that the first step already moves; the decay meets
its floor at step = total_steps, just after the last step, so that the last one still moves; past it
the floor holds.
"""

import math

from core.optim.errors import OptionError


def constant(step: int, *, warmup_steps: int = 0) -> float:
    """Hold the peak after the warm-up, for ever."""
    _require_count("step", step)
    _require_count("warmup_steps", warmup_steps)
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def linear(step: int, total_steps: int, warmup_steps: int = 0, floor_ratio: float = 0.0) -> float:
    """Fall straight from the peak at the end of the warm-up to `floor_ratio` at `total_steps`."""
    warmup, progress = _phase(step, total_steps, warmup_steps, floor_ratio)
    return warmup * (1.0 - (1.0 - floor_ratio) * progress)


def cosine(step: int, total_steps: int, warmup_steps: int = 0, floor_ratio: float = 0.0) -> float:
    """Fall along half a cosine from the end of the warm-up to `floor_ratio` at `total_steps`.

    Source: Loshchilov, Hutter, *SGDR*, arXiv 1608.03983, equation 5, without restarts.
    """
    warmup, progress = _phase(step, total_steps, warmup_steps, floor_ratio)
    height = 0.5 * (1.0 + math.cos(math.pi * progress))
    return warmup * (floor_ratio + (1.0 - floor_ratio) * height)


def _phase(step: int, total: int, warmup_steps: int, floor_ratio: float) -> tuple[float, float]:
    """Give the warm-up factor and how far the decay has gone, both in [0, 1]."""
    _require_count("total_steps", total, least=1)
    if not 0.0 <= floor_ratio <= 1.0:
        raise OptionError("floor_ratio", floor_ratio, "use a share of the peak, from 0 to 1")
    warmup = constant(step, warmup_steps=warmup_steps)
    if warmup_steps > total:
        raise OptionError("warmup_steps", warmup_steps, f"use at most total_steps = {total}")
    if step < warmup_steps:
        return warmup, 0.0
    return 1.0, min(1.0, (step - warmup_steps) / max(1, total - warmup_steps))


def _require_count(field: str, value: int, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(field, value, f"use a whole number of at least {least}")

"""What the memory plan foretells for a case of ours, from the shape alone."""

from functools import cache

import torch

from benchmarks.cases import Case, Shape
from benchmarks.measuring import config_of
from core.streambp.plan import Footprint, Wish, footprint, memory_plan


def planned_bytes(case: Case) -> int:
    """Bytes above weights and gradients at the peak of the case's step, with the plan's margin."""
    _, keep, store = case.mode.split("/")
    found = _footprint(case.shape, case.dtype, case.chunk_tokens)
    wish = Wish(case.head_chunk_tokens, keep=keep, store=store)  # type: ignore[arg-type]
    peak = memory_plan(found, case.tokens, wish).peak
    return peak.total - peak.weights - peak.gradients


@cache
def _footprint(shape: Shape, dtype: str, chunk_tokens: int) -> Footprint:
    return footprint(config_of(shape), dtype=getattr(torch, dtype), chunk_tokens=chunk_tokens)

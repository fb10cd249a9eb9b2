"""Stochastic rounding of narrow weights, so that small updates survive in expectation.

bfloat16 has 8 significant bits: next to a weight of 1, any step below 1/256 rounds back to the old
weight. Adding 16 uniform bits below the last kept one before cutting makes the rounded
value an unbiased estimate: E[round(x)] = x. The codes of an int8 weight are rounded with the same
bits (see `quantise`).
"""

import functools

import torch
from torch import Tensor

from core.optim.descent import Rounder
from core.optim.int8 import Int8Weight
from core.optim.noise import rounding_noise


def rounder_for(param: Tensor, *, name: str, seed: int, step: int) -> Rounder | None:
    """Choose by what `param` holds; None where float32 or more is, and nothing is rounded."""
    if isinstance(param, Int8Weight):
        return functools.partial(round_to_int8, like=param, name=name, seed=seed, step=step)
    if param.dtype == torch.bfloat16:
        return functools.partial(round_to_bfloat16, name=name, seed=seed, step=step)
    return None


def round_to_bfloat16(value: Tensor, *, name: str, seed: int, step: int, offset: int = 0) -> Tensor:
    """Round float32 `value` of any shape to bfloat16, up or down by chance, on average exact.

    step:   the optimizer step, so that each step rounds with fresh bits
    offset: the index of the first element in the whole parameter, where `value` is a shard
    Infinities and NaNs pass unchanged.
    """
    draw = rounding_noise(name=name, seed=seed, step=step, device=value.device, offset=offset)
    noise = draw(0, value.numel())
    bits = value.contiguous().view(torch.int32) + noise.view_as(value)
    rounded = (bits & -(1 << 16)).view(torch.float32)
    return torch.where(value.isfinite(), rounded, value).to(torch.bfloat16)


def round_to_int8(
    value: Tensor, *, like: Int8Weight, name: str, seed: int, step: int, offset: int = 0
) -> Int8Weight:
    """Round `value` to codes by chance, on average exact, in groups as `like` has them.

    step, offset: as in `round_to_bfloat16`; `value` is whole rows
    """
    noise = rounding_noise(name=name, seed=seed, step=step, device=value.device, offset=offset)
    return Int8Weight.quantised(value, like.group, like.dtype, noise)

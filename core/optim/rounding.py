"""Stochastic rounding to bfloat16, so that small updates survive in expectation.

bfloat16 has 8 significant bits: next to a weight of 1, any step below 1/256 rounds back to the old
weight. Adding 16 uniform bits below the last kept one before cutting makes the rounded
value an unbiased estimate: E[round(x)] = x. The bits come from the counter-based generator, keyed
by (seed, parameter name) and counted by (element, step), so a resumed or a sharded run rounds
alike.
"""

import torch
from torch import Tensor

from core.optim.philox import philox, stream_key

_LANES = 8  # 16-bit numbers in one block of four words
_WORD_BITS = 32


def round_to_bfloat16(value: Tensor, *, name: str, seed: int, step: int, offset: int = 0) -> Tensor:
    """Round float32 `value` of any shape to bfloat16, up or down by chance, on average exact.

    step:   the optimizer step, so that each step rounds with fresh bits
    offset: the index of the first element in the whole parameter, where `value` is a shard
    Infinities and NaNs pass unchanged.
    """
    noise = _uniform16(value.numel(), offset, name=name, seed=seed, step=step, device=value.device)
    bits = value.contiguous().view(torch.int32) + noise.view_as(value)
    rounded = (bits & -(1 << 16)).view(torch.float32)
    return torch.where(value.isfinite(), rounded, value).to(torch.bfloat16)


def _uniform16(
    count: int, offset: int, *, name: str, seed: int, step: int, device: torch.device
) -> Tensor:
    """Draw int32 uniform on [0, 65536) for the elements offset ... offset + count - 1."""
    first = offset // _LANES
    last = -(-(offset + count) // _LANES)
    block = torch.arange(first, last, dtype=torch.int64, device=device)
    steps = torch.full((1,), step, dtype=torch.int64, device=device)
    counter = (block & 0xFFFFFFFF, block >> _WORD_BITS, steps, torch.zeros_like(steps))
    words = philox(counter, stream_key("rounding", seed, name)).to(torch.int32)
    lanes = torch.stack((words & 0xFFFF, (words >> 16) & 0xFFFF), dim=-1).flatten()
    skip = offset - first * _LANES
    return lanes[skip : skip + count]

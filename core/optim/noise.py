"""Uniform numbers for stochastic rounding: one to each element of a parameter and step.

The bits come from the counter-based generator, keyed by (seed, parameter name) and counted by
(element, step), so a resumed run, a shard, or a parameter that is rounded block by block gets
those of the whole. Every way of rounding draws here.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from core.optim.philox import philox, stream_key

Noise = Callable[[int, int], Tensor]
"""Gives int32 uniform on [0, 65536) for the elements start ... stop - 1, in row-major order."""

_LANES = 8  # 16-bit numbers in one block of four words
_WORD_BITS = 32


def rounding_noise(
    *, name: str, seed: int, step: int, device: torch.device, offset: int = 0
) -> Noise:
    """Give the noise of one parameter at one step; `offset` is a shard's first element."""
    return functools.partial(_drawn, offset, name=name, seed=seed, step=step, device=device)


def _drawn(
    offset: int, start: int, stop: int, *, name: str, seed: int, step: int, device: torch.device
) -> Tensor:
    count, start = stop - start, offset + start
    first = start // _LANES
    last = -(-(start + count) // _LANES)
    block = torch.arange(first, last, dtype=torch.int64, device=device)
    steps = torch.full((1,), step, dtype=torch.int64, device=device)
    counter = (block & 0xFFFFFFFF, block >> _WORD_BITS, steps, torch.zeros_like(steps))
    words = philox(counter, stream_key("rounding", seed, name)).to(torch.int32)
    lanes = torch.stack((words & 0xFFFF, (words >> 16) & 0xFFFF), dim=-1).flatten()
    skip = start - first * _LANES
    return lanes[skip : skip + count]

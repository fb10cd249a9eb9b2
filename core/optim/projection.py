"""APOLLO's random projection P, drawn anew from (seed, parameter name, refresh) at each use.

Entries are N(0, 1/R) (arXiv 2412.05270, section 4). An entry depends on its own global index alone,
so a shard draws its slice of P without the rest, and no P is ever saved. A normal is the sum of two
16-bit Gaussian quantiles, q[low] + q[high] over sqrt(2), looked up in a table: lookups, one sum and
one product are exact on every device, where a logarithm or a cosine differs in the last bit.

Axes: E fused experts (where there are any), L the compressed (smaller) side, R rank.
"""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Protocol

import torch
from torch import Tensor

from core.optim.philox import philox, stream_key

MATRIX_AXES = 2
EXPERT_AXES = 3
_TABLE_BITS = 16


class Projector(Protocol):
    """Gives P of one parameter; the tests put the recorded recipe in its place."""

    def __call__(
        self,
        name: str,  # the parameter's name
        shape: Sequence[int],  # (M, N) or (E, M, N), the whole parameter's
        rank: int,  # R, at most min(M, N)
        refresh: int,  # how often P has been renewed so far, from 0
        *,
        seed: int,  # the run's seed
        device: torch.device,
    ) -> Tensor:  # (L, R) or (E, L, R), float32
        """Draw P, the compressed side first."""
        ...


def gaussian_projection(
    name: str,
    shape: Sequence[int],
    rank: int,
    refresh: int,
    *,
    seed: int,
    device: torch.device,
    side: tuple[int, int] | None = None,
    experts: tuple[int, int] | None = None,
) -> Tensor:
    """Draw P of a parameter, or its slice [start, stop) along the compressed side or the experts.

    Returns float32 (L, R), or (E, L, R) for a three-dimensional shape, with entries N(0, 1/R).
    A slice has the bits that the whole has there.
    """
    start, stop = side or (0, min(shape[-2:]))
    first, last = experts or (0, shape[0] if len(shape) == EXPERT_AXES else 1)

    def count(start: int, stop: int) -> Tensor:
        return torch.arange(start, stop, dtype=torch.int64, device=device)

    index_L, index_Q, index_E = count(start, stop), count(0, -(-rank // 4)), count(first, last)
    counter = (index_L[:, None], index_Q, index_E[:, None, None], count(refresh, refresh + 1))
    words_ELQ4 = philox(counter, stream_key("projection", seed, name))
    words_ELR = words_ELQ4.flatten(-2)[..., :rank]
    proj_ELR = _normals(words_ELR).mul_(_float32(1.0 / math.sqrt(rank)))
    return proj_ELR if len(shape) == EXPERT_AXES else proj_ELR[0]


def _normals(words: Tensor) -> Tensor:
    """Turn each 32-bit word into a standard normal, float32."""
    table = _quantiles(words.device)
    low = table[words & ((1 << _TABLE_BITS) - 1)]
    return low.add_(table[words >> _TABLE_BITS]).mul_(_float32(math.sqrt(0.5)))


@functools.lru_cache(maxsize=16)
def _quantiles(device: torch.device) -> Tensor:
    """Tabulate the normal distribution's 65,536 mid-bin quantiles, scaled to unit variance."""
    bins = 1 << _TABLE_BITS
    normal = NormalDist()
    lower = [normal.inv_cdf((i + 0.5) / bins) for i in range(bins // 2)]
    spread = math.sqrt(2.0 * math.fsum(value * value for value in lower) / bins)
    lower = [value / spread for value in lower]
    symmetric = lower + [-value for value in reversed(lower)]
    return torch.tensor(symmetric, dtype=torch.float32).to(device)


def _float32(value: float) -> float:
    """Return `value` rounded to float32, so that no device multiplies by a longer constant."""
    return float(torch.tensor(value, dtype=torch.float32))

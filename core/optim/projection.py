"""Where APOLLO's projection P comes from: two random ones, drawn anew at each use, and one fitted.

gaussian     entries N(0, 1/R) (arXiv 2412.05270, section 4). A normal is one of 65,536 quantiles,
             looked up by 16 random bits: exact on every device, where a logarithm or a cosine
             differs in the last bit
rademacher   entries +-1/sqrt(R), one random bit each (Achlioptas, *Database-friendly random
             projections*, 2003): E[P P'] = I and norms kept as well as by normals, for a sixteenth
             of the random bits; a draw takes a fraction of the product that it is for
svd          the gradient's own top singular vectors, the paper's slow comparison

An entry of a random P depends on (seed, parameter name, refresh) and its own global index alone, so a
shard draws its slice without the rest, and no such P is ever saved.

Axes: E fused experts (where there are any), K the kept (longer) side, L the compressed (smaller)
side, R rank, Q blocks of four random words.
"""

import functools
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import Literal, Protocol

import torch
from torch import Tensor

from core.optim.philox import Key, philox, stream_key

Projection = Literal["gaussian", "rademacher", "svd"]

MATRIX_AXES = 2
EXPERT_AXES = 3
_WORD_BITS = 32
_TABLE_BITS = 16
_CACHED_BLOCKS = 1 << 15  # of Philox at once on a CPU, whose cache then holds all ten rounds


class Projector(Protocol):
    """Gives a random P of one parameter; the tests put the recorded recipe in its place."""

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
    table = _quantiles(device) * _float32(1.0 / math.sqrt(rank))

    def normals(words: Tensor) -> Tensor:
        halves = words.view(torch.int16).to(torch.int32).bitwise_and_(0xFFFF)
        return table.index_select(0, halves.flatten()).view(halves.shape)

    key = stream_key("projection", seed, name)
    return _drawn(normals, _TABLE_BITS, key, shape, rank, refresh, device, side, experts)


def rademacher_projection(
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
    """As `gaussian_projection`, with entries +1/sqrt(R) and -1/sqrt(R), equally likely."""
    table_WB = _byte_signs(device) * _float32(1.0 / math.sqrt(rank))  # a row for each byte

    def signs(words: Tensor) -> Tensor:
        octets = words.view(torch.uint8).to(torch.int32)
        return table_WB.index_select(0, octets.flatten()).view(*words.shape[:-1], 4 * _WORD_BITS)

    key = stream_key("rademacher", seed, name)
    return _drawn(signs, 1, key, shape, rank, refresh, device, side, experts)


def svd_projection(grad_KL: Tensor, rank: int) -> Tensor:
    """Give the gradient's `rank` leading singular vectors on the compressed side: P'P = I.

    grad_KL: (K, L) or (E, K, L), at least float32, K >= L. Returns (L, R) or (E, L, R) in its dtype.
    A singular vector has no sign of its own: here its largest entry is positive.
    """
    right_LR = torch.linalg.svd(grad_KL, full_matrices=False).Vh[..., :rank, :].mT
    largest = right_LR.abs().argmax(dim=-2, keepdim=True)
    return right_LR * right_LR.gather(-2, largest).sign()


RANDOM: dict[Projection, Projector] = {
    "gaussian": gaussian_projection,
    "rademacher": rademacher_projection,
}
"""The projections that need no gradient."""


def _drawn(  # noqa: PLR0913, PLR0917 - what an entry depends on
    read: Callable[[Tensor], Tensor],  # makes float32 entries of (..., 4) random words, int32
    bits: int,  # that it takes for one
    key: Key,
    shape: Sequence[int],
    rank: int,
    refresh: int,
    device: torch.device,
    side: tuple[int, int] | None,
    experts: tuple[int, int] | None,
) -> Tensor:
    """Draw each row's words from blocks of its own, and let `read` make entries of them."""
    start, stop = side or (0, min(shape[-2:]))
    first, last = experts or (0, shape[0] if len(shape) == EXPERT_AXES else 1)
    count = functools.partial(torch.arange, dtype=torch.int64, device=device)
    index_Q, index_E = count(-(-rank * bits // (4 * _WORD_BITS))), count(first, last)
    proj_ELR = torch.empty(last - first, stop - start, rank, dtype=torch.float32, device=device)
    rows = max(1, _CACHED_BLOCKS // (len(index_Q) * max(1, len(index_E))))
    if device.type != "cpu":
        rows = max(1, stop - start)
    for part_ELR, index_L in zip(
        proj_ELR.split(rows, dim=1), count(start, stop).split(rows), strict=True
    ):
        counter = (index_L[:, None], index_Q, index_E[:, None, None], count(refresh, refresh + 1))
        words_ELQ4 = philox(counter, key).to(torch.int32)
        part_ELR.copy_(read(words_ELQ4).flatten(-2)[..., :rank])
    return proj_ELR if len(shape) == EXPERT_AXES else proj_ELR[0]


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


@functools.lru_cache(maxsize=16)
def _byte_signs(device: torch.device) -> Tensor:
    """Tabulate the eight signs that a byte's bits stand for, the lowest bit first."""
    bits = torch.arange(256)[:, None] >> torch.arange(8) & 1
    return (1.0 - 2.0 * bits).to(device)


def _float32(value: float) -> float:
    """Return `value` rounded to float32, so that no device multiplies by a longer constant."""
    return float(torch.tensor(value, dtype=torch.float32))

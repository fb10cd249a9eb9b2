"""The last line of every rule: W = (1 - lr wd) W - step * U, rounded once, without a copy of W.

A weight in lower precision than the update is moved piece by piece: each piece is widened, moved and
rounded before the next, so what that needs beside the weight is a piece's size.
"""

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor

from core.optim.norms import row_blocks

_MATRIX_AXES = 2


class Rounder(Protocol):
    """Takes a value in full precision to the weight's dtype."""

    def __call__(self, value: Tensor, *, offset: int) -> Tensor:
        """Round `value`, whose first element is the parameter's element number `offset`."""
        ...


def descend(
    weight: Tensor,  # any shape, any floating dtype; changed in place
    direction: Tensor,  # the same shape, at least float32
    *,
    step_size: float,
    decay: float,  # lr * weight decay
    rounder: Rounder | None,  # None: to nearest
    factor: Tensor | None = None,  # (..., M or 1, N or 1): U = factor * direction; None: 1
    decay_after_update: bool = False,
) -> None:
    """Move the weight; `factor * direction` is never stored, for a matrix's size is what costs."""

    def moved(value: Tensor, direction: Tensor, factor: Tensor | None) -> Tensor:
        if decay and not decay_after_update:
            value.mul_(1.0 - decay)
        if factor is None:
            value.add_(direction, alpha=-step_size)
        else:
            value.addcmul_(direction, factor, value=-step_size)
        if decay and decay_after_update:
            value.mul_(1.0 - decay)
        return value

    if weight.dtype == direction.dtype:
        moved(weight, direction, factor)
        return
    for piece, towards, scale, offset in _pieces(weight, direction, factor, 0):
        value = moved(piece.to(direction.dtype), towards, scale)
        piece.copy_(value if rounder is None else rounder(value, offset=offset))


def _pieces(
    weight: Tensor, direction: Tensor, factor: Tensor | None, offset: int
) -> Iterator[tuple[Tensor, Tensor, Tensor | None, int]]:
    """Split all three alike into blocks of rows, with the number of each block's first element."""
    if weight.ndim < _MATRIX_AXES:
        yield weight, direction, factor, offset
    elif weight.ndim > _MATRIX_AXES:
        for i, (one, towards) in enumerate(zip(weight, direction, strict=True)):
            scale = None if factor is None else factor[i]
            yield from _pieces(one, towards, scale, offset + i * one.numel())
    else:
        first = 0
        for rows, towards in row_blocks(weight, direction):
            scale = factor
            if factor is not None and factor.shape[0] > 1:
                scale = factor[first : first + len(rows)]
            yield rows, towards, scale, offset + first * weight.shape[1]
            first += len(rows)

"""The last line of every rule: W = (1 - lr wd) W - step * U, rounded once, without a copy of W.

A weight in lower precision than the update is moved part by part: each part is widened, moved and
rounded before the next, so what that needs beside the weight is a part's size.
"""

from typing import Any, Protocol

import torch
from torch import Tensor

from core.optim.int8 import Int8Weight
from core.optim.parts import parts


class Rounder(Protocol):
    """Takes a value in full precision to what the weight holds: its dtype, or codes and scales."""

    def __call__(self, value: Tensor, *, offset: int) -> Tensor:
        """Round `value`, whose first element is the parameter's element number `offset`."""
        ...


def descend(
    weight: Tensor,  # any shape, any floating dtype or int8; changed in place
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

    if weight.dtype == direction.dtype and not isinstance(weight, Int8Weight):
        moved(weight, direction, factor)
        return
    for index, first in parts(weight.shape, weight.device):
        part = weight.part(index) if isinstance(weight, Int8Weight) else weight[index]
        wide = _wide(part, direction.dtype)
        value = moved(wide, direction[index], _part_of(factor, index))
        part.copy_(value if rounder is None else rounder(value, offset=first))
    # A part of an int8 weight has a version of its own.
    torch.autograd.graph.increment_version(weight)


def _wide(part: Tensor, dtype: torch.dtype) -> Tensor:
    return part.dequantised(dtype) if isinstance(part, Int8Weight) else part.to(dtype)


def _part_of(factor: Tensor | None, index: Any) -> Tensor | None:
    """Give the factors of a part, which is some rows of one matrix, or a whole vector."""
    if factor is None or index is ...:
        return factor
    *place, rows = index
    matrix = factor[tuple(place)]
    return matrix[rows] if matrix.shape[0] > 1 else matrix

"""Norms of matrices and their channels, and walking large tensors in pieces that a cache holds.

On a CPU a pass over a gradient costs what memory costs, and a temporary tensor its page faults
besides. torch sums along rows at memory speed, but along columns (the axis before the last) thirty
times slower. So columns are summed block of rows by block of rows into one block that stays in the
cache.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from core.optim.parts import part_elements


def channel_norms(value: Tensor, axis: int) -> Tensor:
    """Give the 2-norms of (..., M, N) along `axis`, -1 or -2, which stays with length 1."""
    if axis == -1 or value.device.type != "cpu":
        return torch.linalg.vector_norm(value, dim=axis, keepdim=True)
    squares: Tensor | None = None
    for (block,) in row_blocks(value):
        if squares is None:
            squares = block.square()
        else:
            squares[..., : block.shape[-2], :].addcmul_(block, block)
    if squares is None:
        return value.new_zeros(*value.shape[:-2], 1, value.shape[-1])
    return squares.sum(dim=-2, keepdim=True).sqrt_()


def matrix_norms(value: Tensor) -> Tensor:
    """Give the Frobenius norm of each matrix of (..., M, N), as (..., 1, 1).

    By way of the rows: one float32 sum over all of a large matrix loses a digit or two.
    """
    return torch.linalg.vector_norm(channel_norms(value, -1), dim=(-2, -1), keepdim=True)


def row_blocks(*values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split tensors (..., M, N) alike along M, into blocks that suit the device."""
    elements = part_elements(values[0].device.type)
    row_elements = values[0].numel() // max(1, values[0].shape[-2])
    rows = max(1, elements // max(1, row_elements))
    return zip(*(value.split(rows, dim=-2) for value in values), strict=True)

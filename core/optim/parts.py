"""Parts of a weight that are worked on one after the other, so that what is made on the way stays small.

Rounding draws a number to each element, in 64-bit integers: for a whole embedding that would be
several times the weight. A part is some rows of one matrix.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

_CPU_ELEMENTS = 1 << 18  # of a part: what stays in a CPU's cache
_ELEMENTS = 1 << 22  # elsewhere, where more and smaller launches would take longer
_MATRIX_AXES = 2


def parts(shape: Sequence[int], device: torch.device) -> Iterator[tuple[Any, int]]:
    """Give index and first element (in row-major order) of each part; a vector is one part."""
    if len(shape) < _MATRIX_AXES:
        yield ..., 0
        return
    *leading, rows, width = shape
    elements = _CPU_ELEMENTS if device.type == "cpu" else _ELEMENTS
    count = max(1, elements // max(1, width))
    places = itertools.product(*map(range, leading))
    for matrix, place in enumerate(places):
        for start in range(0, rows, count):
            yield (*place, slice(start, start + count)), (matrix * rows + start) * width

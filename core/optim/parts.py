"""Parts of a weight that are worked on one after the other, so that what is made on the way stays small.

Rounding draws a number to each element, in 64-bit integers: for a whole embedding that would be
several times the weight. A part is some rows of one matrix.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch

_CPU_ELEMENTS = 1 << 17  # of a part: with the few others of its kind it stays in a core's cache
_ELEMENTS = 1 << 22  # elsewhere, where more and smaller launches would take longer
_MATRIX_AXES = 2


def part_elements(device_type: str) -> int:
    """Give how many elements a part has, at most, unless a single row has more."""
    return _CPU_ELEMENTS if device_type == "cpu" else _ELEMENTS


def parts(shape: Sequence[int], device: torch.device) -> Iterator[tuple[Any, int]]:
    """Give index and first element (in row-major order) of each part; a vector is one part."""
    if len(shape) < _MATRIX_AXES:
        yield ..., 0
        return
    *leading, rows, width = shape
    count = max(1, part_elements(device.type) // max(1, width))
    places = itertools.product(*map(range, leading))
    for matrix, place in enumerate(places):
        for start in range(0, rows, count):
            yield (*place, slice(start, start + count)), (matrix * rows + start) * width

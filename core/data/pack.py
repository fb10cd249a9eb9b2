"""Several rows in one, one after the other, none seeing another: no place is spent on padding.

The rows of a file are packed once, before the first epoch, the same way every time: longest first,
each into the fullest packed row that has room for it (best fit decreasing, Johnson 1974). A packed row
counts as one row of a batch. Which tokens are targets does not change: the first token of a row has
nothing before it, packed or not, so nothing is learnt across a border.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from core.data.encoded import Encoded


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows that stand in one; to be read as one `Encoded` of several documents."""

    parts: tuple[Encoded, ...]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def input_ids(self) -> list[int]:
        """All tokens, in order."""
        return [token for part in self.parts for token in part.input_ids]

    @property
    def trained(self) -> list[bool]:
        """Which of them are targets."""
        return [mark for part in self.parts for mark in part.trained]

    @property
    def targets(self) -> int:
        """Number of tokens that are trained."""
        return sum(part.targets for part in self.parts)

    @property
    def documents(self) -> list[int]:
        """Lengths of the rows that stand in it."""
        return [len(part) for part in self.parts]

    @property
    def lines(self) -> list[int]:
        """Lines of the file that they came from."""
        return [part.line for part in self.parts]


def unpacked(rows: Sequence[Packed]) -> list[Encoded]:
    """Give the rows that stand in packed ones, each by itself again."""
    return [part for row in rows for part in row.parts]


def pack(rows: Sequence[Encoded], capacity: int) -> list[Packed]:
    """Pack rows, none longer than `capacity` tokens, into as few of that capacity as best fit finds.

    In the order of their first parts in the file; a row's parts are in the order of the file too.
    """
    bins: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (tokens left, bin), sorted
    for index in sorted(range(len(rows)), key=lambda i: (-len(rows[i]), i)):
        length = len(rows[index])
        if length > capacity:
            raise ValueError(f"a row has {length} tokens, more than the capacity of {capacity}")
        place = bisect_left(room, (length, -1))
        if place == len(room):
            bins.append([index])
            left, number = capacity, len(bins) - 1
        else:
            left, number = room.pop(place)
            bins[number].append(index)
        if left > length:
            insort(room, (left - length, number))
    return [Packed(tuple(rows[i] for i in sorted(members))) for members in sorted(bins, key=min)]

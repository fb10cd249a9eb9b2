"""Rows that are there twice: in one file, or in the training and the validation file.

A validation loss over rows that were trained on says how well they were learnt by heart.
"""

from dataclasses import dataclass, field
from typing import Any

from core.data.digests import MAX_ROWS, Digests, RowDigests, digest_of
from core.data.fault import Fault
from core.data.report import Place, Problem

SHOWN_PAIRS = 10


@dataclass(slots=True)
class Repeats:
    """Counts the rows of one file that it holds already, and shows the first few."""

    digests: Digests = field(default_factory=Digests)
    count: int = 0
    warnings: list[Problem] = field(default_factory=list)

    def see(self, row: dict[str, Any], place: Place) -> None:
        """One more row."""
        first = self.digests.add(digest_of(row), place.number)
        if first is not None:
            self.count += 1
            if self.count <= SHOWN_PAIRS:
                self._warn(_duplicate(Place(first, place.unit)), place)
        elif self.digests.full and not any(
            w.code == "duplicates_not_tracked" for w in self.warnings
        ):
            self._warn(_untracked(self.digests.limit), place)

    def _warn(self, fault: Fault, place: Place) -> None:
        self.warnings.append(fault.located(place))


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of two files that are the same.

    `pairs` are the first (training line, validation line); `count` is the number of training rows
    that stand in the validation file too. `complete` is False where the validation file was too
    long to remember all of it.
    """

    pairs: list[tuple[int, int]]
    count: int
    complete: bool


def shared_rows(
    training: RowDigests,
    validation: RowDigests,
    *,
    max_pairs: int = SHOWN_PAIRS,
    max_rows: int = MAX_ROWS,
) -> SharedRows:
    """Tell which rows of a training file stand in a validation file."""
    digests = Digests(max_rows)
    for line, digest in validation:
        digests.add(digest, line)
    pairs: list[tuple[int, int]] = []
    count = 0
    for line, digest in training:
        if (other := digests.find(digest)) is not None:
            count += 1
            if len(pairs) < max_pairs:
                pairs.append((line, other))
    return SharedRows(pairs, count, complete=not digests.full)


def _duplicate(first: Place) -> Fault:
    hint = "Remove it, unless it is to count twice."
    return Fault("duplicate_row", f"the same row as {first}", hint)


def _untracked(limit: int) -> Fault:
    message = (
        f"the file has more than {limit} different rows; repeats of those after here are not found"
    )
    return Fault("duplicates_not_tracked", message, "Look for repeated rows before the upload.")

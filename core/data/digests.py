"""Rows of a file as digests, and where each was seen first, in 24 bytes a row or slot.

A table with open addressing in flat arrays: a dictionary of the same would take five times the
memory. Two rows are the same if the 16 bytes of their digests are.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from pydantic_core import to_json

DIGEST_BYTES = 16
MAX_ROWS = 5_000_000
_FIRST_SLOTS = 1024


def digest_of(row: dict[str, Any]) -> bytes:
    """16 bytes that stand for a row, whatever the order of its keys and its white space."""
    return blake2b(to_json(_ordered(row)), digest_size=DIGEST_BYTES).digest()


def _ordered(value: Any) -> Any:
    # Most values are strings; a call for each would be half of the time.
    if isinstance(value, dict):
        items = sorted(value.items())
        return {key: item if type(item) is str else _ordered(item) for key, item in items}
    if isinstance(value, list):
        return [item if type(item) is str else _ordered(item) for item in value]
    return value


def _no_lines() -> "array[int]":
    return array("Q")


@dataclass(frozen=True, slots=True)
class RowDigests:
    """The digests of all rows of a file, with their lines, in the order of the file."""

    lines: "array[int]" = field(default_factory=_no_lines)
    joined: bytearray = field(default_factory=bytearray)

    def add(self, line: int, digest: bytes) -> None:
        """One more row."""
        self.lines.append(line)
        self.joined.extend(digest)

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Lines and digests."""
        for place, line in enumerate(self.lines):
            start = place * DIGEST_BYTES
            yield line, bytes(self.joined[start : start + DIGEST_BYTES])


class Digests:
    """Digests with the line (from 1) at which each was seen first, of at most `limit` rows."""

    def __init__(self, limit: int = MAX_ROWS) -> None:
        self.limit = limit
        self.count = 0
        self._allocate(_FIRST_SLOTS)

    @property
    def full(self) -> bool:
        """Whether no new digest is remembered any more."""
        return self.count >= self.limit

    def find(self, digest: bytes) -> int | None:
        """The line of a digest, or None where it is not known."""
        return self._lines[self._slot(*_halves(digest))] or None

    def add(self, digest: bytes, line: int) -> int | None:
        """The line at which a digest was seen before; None where it is new, and then remembered."""
        high, low = _halves(digest)
        slot = self._slot(high, low)
        if self._lines[slot]:
            return self._lines[slot]
        if not self.full:
            self._put(slot, high, low, line)
            self.count += 1
            if 3 * self.count > 2 * len(self._lines):
                self._grow()
        return None

    def _allocate(self, slots: int) -> None:
        empty = array("Q", [0])
        self._high, self._low, self._lines = empty * slots, empty * slots, empty * slots

    def _slot(self, high: int, low: int) -> int:
        """The slot of a digest, or the free one where it would stand."""
        mask = len(self._lines) - 1
        slot = low & mask
        while self._lines[slot] and (self._low[slot] != low or self._high[slot] != high):
            slot = (slot + 1) & mask
        return slot

    def _put(self, slot: int, high: int, low: int, line: int) -> None:
        self._high[slot], self._low[slot], self._lines[slot] = high, low, line

    def _grow(self) -> None:
        old = self._high, self._low, self._lines
        self._allocate(2 * len(self._lines))
        for high, low, line in zip(*old, strict=True):
            if line:
                self._put(self._slot(high, low), high, low, line)


def _halves(digest: bytes) -> tuple[int, int]:
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")

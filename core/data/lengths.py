"""Rows counted by their length in tokens: in buckets that double, of 1, 2-3, 4-7, ... tokens."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows of at least ``shortest`` and at most ``longest`` tokens."""

    shortest: int
    longest: int
    rows: int


@dataclass(frozen=True, slots=True)
class Lengths:
    """Add lengths, then read the buckets. ``powers``: rows by the number of bits of their length."""

    powers: Counter[int] = field(default_factory=Counter)

    def add(self, tokens: int) -> None:
        """Count a row."""
        self.powers[tokens.bit_length()] += 1

    def buckets(self) -> list[Bucket]:
        """From the shortest rows to the longest, empty ones between them included."""
        if not self.powers:
            return []
        powers = range(min(self.powers), max(self.powers) + 1)
        return [Bucket(2**p // 2, max(2**p - 1, 0), self.powers[p]) for p in powers]

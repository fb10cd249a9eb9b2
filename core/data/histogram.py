"""How long the rows of a file are in a model's tokens, counted as they go by.

A row of preferences counts by the longer of its branches.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.data.lengths import Lengths
from core.data.sides import Side

FIRST_LINES = 10


@dataclass(slots=True)
class Places:
    """How many rows have something in common, and the lines of the first."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def note(self, line: int) -> None:
        """Count a row."""
        self.count += 1
        if len(self.lines) < FIRST_LINES:
            self.lines.append(line)


@dataclass(slots=True)
class Histogram:
    """Add rows, then read it. ``context_length`` None: no row is over it."""

    context_length: int | None = None
    rows: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    longest: int = 0
    longest_line: int = 0
    over_context: Places = field(default_factory=Places)
    without_target: Places = field(default_factory=Places)
    lengths: Lengths = field(default_factory=Lengths)

    def add(self, line: int, sides: Sequence[Side]) -> None:
        """Count a row by its sides, as `sides_of` gives them."""
        lengths = [len(side.encoded) for side in sides]
        length = max(lengths)
        self.rows += 1
        self.tokens += sum(lengths)
        self.trained_tokens += sum(side.encoded.targets for side in sides)
        self.lengths.add(length)
        if length > self.longest:
            self.longest, self.longest_line = length, line
        if self.context_length is not None and length > self.context_length:
            self.over_context.note(line)
        if any(side.name != "prompt" and not side.encoded.targets for side in sides):
            self.without_target.note(line)

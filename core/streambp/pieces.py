"""How a chunk is cut into queries that share what they may see.

A *segment* is a run of tokens of one row that see each other causally: a document, a prompt, one of
the answers to a prompt. It may see a *prefix* as well, whole. A *piece* is what a chunk contains of
a segment, or less under a sliding window; it sees its own causal square and spans of earlier keys.

All indices count tokens of the whole row. Positions count from 0 at the first token of a document,
and go on from a prompt into each of its answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Keys `start:stop` of a row, the first of them at position `position` of its document."""

    start: int
    stop: int
    position: int

    def within(self, window: int | None, query_position: int) -> "Span":
        """Keep the keys that a query at `query_position` may see through `window` (None: all)."""
        skip = 0 if window is None else query_position - window + 1 - self.position
        return self._after(self.start + skip)

    def split(self, token: int) -> tuple["Span", "Span"]:
        """Cut into the keys before `token` and those from it on; either may be empty."""
        stop = min(max(self.start, token), self.stop)
        return Span(self.start, stop, self.position), self._after(token)

    def _after(self, token: int) -> "Span":
        start = min(max(self.start, token), self.stop)
        return Span(start, self.stop, self.position + start - self.start)


@dataclass(frozen=True, slots=True)
class Piece:
    """Queries `start:stop` of rows `first_row:last_row`; they see `earlier` and their own square.

    `position` is the position of the first query. No span crosses the first token of the chunk.
    """

    first_row: int
    last_row: int
    start: int
    stop: int
    position: int
    earlier: tuple[Span, ...]

    @property
    def rows(self) -> slice:
        """Index the rows of the batch that this piece is about."""
        return slice(self.first_row, self.last_row)


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens `start:stop` of a row, which see themselves causally and all of `prefix`."""

    start: int
    stop: int
    prefix: tuple[Span, ...] = ()

    @property
    def position(self) -> int:
        """Position of the first token."""
        return sum(span.stop - span.start for span in self.prefix)

    def pieces(
        self, rows: tuple[int, int], chunk: tuple[int, int], window: int | None
    ) -> Iterator[Piece]:
        """Cut out what `chunk` holds of this segment, no piece longer than `window`."""
        first, last = max(self.start, chunk[0]), min(self.stop, chunk[1])
        for start in range(first, last, window or self.stop):
            stop = min(start + (window or self.stop), last)
            position = self.position + start - self.start
            own = Span(self.start, start, self.position)
            seen = (span.within(window, position) for span in (*self.prefix, own))
            parts = (part for span in seen for part in span.split(chunk[0]))
            earlier = tuple(part for part in parts if part.start < part.stop)
            yield Piece(*rows, start, stop, position, earlier)

"""What every token may see, as data: spans of keys instead of a T x T mask.

A chunk is cut into *pieces*: queries that share what they may see. A piece sees its own causal
square and whole spans of earlier keys. Packed documents are pieces whose span starts at their
document; sliding windows narrow the spans; a shared prefix would be one span more. Padding on the
right needs no mask in a causal model: it belongs to its row's last document, and is not scored.

Legend: B rows, T tokens of a row.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from core.streambp.errors import LayoutError


@dataclass(frozen=True, slots=True)
class Span:
    """Keys `start:stop` of a row, the first of them at position `position` of its document."""

    start: int
    stop: int
    position: int

    def within(self, window: int | None, query_position: int) -> "Span":
        """Keep the keys that a query at `query_position` may see through `window` (None: all)."""
        if window is None:
            return self
        skip = query_position - window + 1 - self.position
        skip = min(max(skip, 0), self.stop - self.start)
        return Span(self.start + skip, self.stop, self.position + skip)


@dataclass(frozen=True, slots=True)
class Piece:
    """Queries `start:stop` of rows `first_row:last_row`; they see `earlier` and their own square.

    `position` is the position of the first query. All indices count tokens of the whole row.
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
class Layout:
    """Documents per row: `starts[b]` are the first tokens of row b's documents, ascending from 0.

    `real[b]` counts the tokens of row b that are not padding. Build with `causal` or `packed`.
    """

    starts: tuple[tuple[int, ...], ...]
    real: tuple[int, ...]
    tokens: int

    @staticmethod
    def causal(lengths: Sequence[int], tokens: int) -> "Layout":
        """One document a row: `lengths[b]` real tokens, padded on the right to `tokens`."""
        return Layout.packed([[length] for length in lengths], tokens)

    @staticmethod
    def packed(documents: Sequence[Sequence[int]], tokens: int) -> "Layout":
        """Row b holds documents of lengths `documents[b]`, one after the other, then padding.

        A token sees only its own document, where positions count from 0. A row that is padded on
        the left is a row whose first document is the padding. Raises LayoutError.
        """
        if not documents:
            raise LayoutError("documents", documents, "give at least one row")
        for row, lengths in enumerate(documents):
            _check_row(row, lengths, tokens)
        starts = tuple((0, *accumulate(lengths[:-1])) for lengths in documents)
        return Layout(starts, tuple(sum(lengths) for lengths in documents), tokens)

    @property
    def is_plain(self) -> bool:
        """Say whether every row is one document: no boundary has to be kept."""
        return all(len(starts) == 1 for starts in self.starts)

    def check_covers(self, rows: int, tokens: int) -> None:
        """Raise LayoutError unless this layout describes a batch of `rows` x `tokens`."""
        if (len(self.starts), self.tokens) != (rows, tokens):
            raise LayoutError(
                "layout",
                (len(self.starts), self.tokens),
                f"describe the whole batch: it has {rows} rows of {tokens} tokens",
            )

    def position_ids(self) -> Tensor:
        """Count positions within the document, int64 of shape (B, T), on the CPU."""
        index_T = torch.arange(self.tokens)
        rows = []
        for starts in self.starts:
            start_K = torch.tensor(starts)
            rows.append(index_T - start_K[torch.bucketize(index_T, start_K, right=True) - 1])
        return torch.stack(rows)

    def pieces(self, start: int, stop: int, window: int | None = None) -> tuple[Piece, ...]:
        """Cut the chunk `start:stop` into pieces; `window` drops keys that none of them can see."""
        rows = len(self.starts)
        if self.is_plain:
            pieces = [_piece(0, rows, 0, start, stop)]
        else:
            pieces = [piece for row in range(rows) for piece in self._row(row, start, stop)]
        return tuple(_narrowed(piece, window) for piece in pieces)

    def _row(self, row: int, start: int, stop: int) -> list[Piece]:
        starts = self.starts[row]
        first = bisect_right(starts, start) - 1
        ends = (*starts[first + 1 :], self.tokens)
        bounds = zip(starts[first:], ends, strict=True)
        return [_piece(row, row + 1, s, max(s, start), min(e, stop)) for s, e in bounds if s < stop]


def chunks(tokens: int, length: int) -> list[tuple[int, int]]:
    """Cut into chunks of at most `length`, as half-open bounds that cover `tokens`, in order."""
    return [(start, min(start + length, tokens)) for start in range(0, tokens, length)]


def _piece(first_row: int, last_row: int, document: int, start: int, stop: int) -> Piece:
    earlier = (Span(document, start, 0),) if document < start else ()
    return Piece(first_row, last_row, start, stop, start - document, earlier)


def _narrowed(piece: Piece, window: int | None) -> Piece:
    spans = (span.within(window, piece.position) for span in piece.earlier)
    return replace(piece, earlier=tuple(span for span in spans if span.start < span.stop))


def _check_row(row: int, lengths: Sequence[int], tokens: int) -> None:
    if not lengths or any(isinstance(n, bool) or not isinstance(n, int) for n in lengths):
        raise LayoutError(f"lengths of row {row}", list(lengths), "give whole numbers")
    if min(lengths) < 1:
        raise LayoutError(f"lengths of row {row}", list(lengths), "a document has a token or more")
    if sum(lengths) > tokens:
        raise LayoutError(
            f"lengths of row {row}", list(lengths), f"the row has only {tokens} tokens in all"
        )

"""What a piece sees of a span through a sliding window, as rectangles and mirrored squares.

A query sees the `window` latest keys, itself among them. The keys that the piece's last query still
sees are seen by all its queries: a rectangle. Of the older ones, the next query always sees one
less: queries x keys is a triangle that points the other way than the causal one, and with queries
and keys both in reverse order it *is* the causal one. So the band needs no mask either.

Legend: B rows, H heads, C tokens, K head width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from core.streambp.pieces import Piece, Span


@dataclass(frozen=True, slots=True)
class Block:
    """Some of a piece's queries and keys that all of them see or, where `mirrored`, a triangle."""

    queries: slice
    keys: Span
    mirrored: bool = False

    def parts(self, keys_at_once: int) -> Iterator["Block"]:
        """Cut a long rectangle into shorter ones; a triangle stays whole."""
        if self.mirrored:
            yield self
            return
        for start in range(self.keys.start, self.keys.stop, keys_at_once):
            _, rest = self.keys.split(start)
            part, _ = rest.split(start + keys_at_once)
            yield Block(self.queries, part)

    def turned(self, x_BHC: Tensor) -> Tensor:
        """Put tokens into reverse order, or back, where the block is mirrored."""
        return x_BHC.flip(2) if self.mirrored else x_BHC


def blocks(piece: Piece, span: Span, window: int | None) -> Iterator[Block]:
    """Cut a span into blocks; the piece is no longer than `window`, and its first query sees all."""
    if window is None:
        yield Block(slice(None), span)
        return
    # The last query sees keys from this position on, hence so do all.
    oldest = piece.position + piece.stop - piece.start - window
    partly, wholly = span.split(span.start + oldest - span.position)
    if wholly.start < wholly.stop:
        yield Block(slice(None), wholly)
    if partly.start == partly.stop:
        return
    # Query number `free` is the last to see the first of these keys; each next one sees one less.
    free = partly.position + window - 1 - piece.position
    if free:
        yield Block(slice(0, free), partly)
    length = partly.stop - partly.start
    yield Block(slice(free, free + length), partly, mirrored=True)

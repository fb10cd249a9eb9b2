"""What one chunk may see, in one run of one layer; it travels where a mask would.

Legend: B rows, H query heads, G key heads, C chunk, S keys of a span, K head width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.streambp.keys import HeldKeys, Place
from core.streambp.pieces import Piece, Span
from core.streambp.visibility import Rule

Attended = tuple[Tensor, Tensor]  # out_BHCK and lse_BHC, the log-sum-exp of the scores


@dataclass(slots=True)
class Tape:
    """What a chunk's attention gave in the forward pass, for the backward pass not to redo it."""

    kept: list[Attended] | None = None
    made: list[Attended] = field(default_factory=list)

    def play(self, attend: Callable[[], Attended]) -> Attended:
        """Take what was kept, in order; without a tape that was kept, attend and note it."""
        self.made.append(self.kept[len(self.made)] if self.kept is not None else attend())
        return self.made[-1]


class ChunkView:
    """The pieces of a chunk that begins at token `start`, and the keys before it."""

    def __init__(
        self, rule: Rule, bounds: tuple[int, int], held: HeldKeys | None = None,
        tape: Tape | None = None,
    ) -> None:  # fmt: skip
        self.rule, self.start = rule, bounds[0]
        self.pieces = rule.pieces(*bounds)
        self.held, self.tape = held, tape
        self.leaves: list[tuple[Place, Tensor, Tensor]] = []

    def own(self, piece: Piece) -> Place:
        """Where the piece's own queries and keys lie in the chunk."""
        return piece.rows, slice(None), slice(piece.start - self.start, piece.stop - self.start)

    def place(self, piece: Piece, span: Span) -> tuple[Place, bool]:
        """Where the span's keys lie: in the chunk itself (True) or among the held keys."""
        inside = span.start >= self.start
        shift = self.start if inside else 0
        return (piece.rows, slice(None), slice(span.start - shift, span.stop - shift)), inside

    def leaf(self, place: Place) -> tuple[Tensor, Tensor]:
        """Give held keys and values as leaves of the chunk's graph, which collect gradient."""
        assert self.held is not None, "earlier keys were asked for, and none are held"
        key, value = (x.detach() for x in self.held.read(place))
        if torch.is_grad_enabled():
            key, value = key.requires_grad_(), value.requires_grad_()
            self.leaves.append((place, key, value))
        return key, value

    def assembled(self, parts: list[Tensor]) -> Tensor:
        """Put together what was computed piece by piece, tokens on axis 2."""
        rows: dict[int, list[Tensor]] = {}
        for piece, part in zip(self.pieces, parts, strict=True):
            rows.setdefault(piece.first_row, []).append(part)
        whole = [row[0] if len(row) == 1 else torch.cat(row, dim=2) for row in rows.values()]
        return whole[0] if len(whole) == 1 else torch.cat(whole)

"""A chunk's attention in parts that are merged by log-sum-exp, with no mask anywhere.

    o = sum_i exp(lse_i - lse) o_i,   lse = log sum_i exp(lse_i)

One part is the causal square on a piece's own keys, the others are whole spans of earlier keys and,
under a sliding window, squares seen in a mirror (see `windows`). Each part's backward is the
kernel's own, given the merged o and lse, as in ring attention (arXiv 2310.01889). `is_causal` is
asked of squares only: with fewer queries than keys torch aligns it to the top left, and a chunk
would see the wrong keys.

Legend: B rows, H query heads, G key heads, C chunk, K head width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.streambp.grouped import Inputs, Kernel
from core.streambp.pieces import Piece
from core.streambp.view import Attended, ChunkView
from core.streambp.windows import Block, blocks

KEYS_AT_ONCE = 2048  # whose gradients a kernel makes, before they are added to those of the row


@dataclass(frozen=True, slots=True)
class FlashPlan:
    """How to attend; `window` is None, or at least the length of every piece."""

    kernel: Kernel
    scale: float
    view: ChunkView
    window: int | None

    def blocks(self, piece: Piece) -> list[Block]:
        """Everything that the piece sees but its own square."""
        return [block for span in piece.earlier for block in blocks(piece, span, self.window)]

    def keys(self, piece: Piece, block: Block, qkv: Inputs) -> tuple[Tensor, Tensor]:
        """Read the block's keys and values, in the chunk or among those held."""
        place, inside = self.view.place(piece, block.keys)
        if inside:
            return qkv[1][place], qkv[2][place]
        assert self.view.held is not None, "earlier keys are seen, and none are held"
        return self.view.held.read(place)

    def forward(self, qkv: Inputs, *, causal: bool) -> Attended:
        """Attend to one block."""
        return self.kernel.forward(qkv, causal=causal, scale=self.scale)

    def backward(self, given: Inputs, qkv: Inputs, *, causal: bool) -> Inputs:
        """Differentiate one block; `given` are the gradient, and out and lse as merged."""
        grad, out, lse = given
        return self.kernel.backward(grad, qkv, (out, lse), causal=causal, scale=self.scale)


class FlashChunk(torch.autograd.Function):
    """out_BHCK of a chunk. The gradients of held keys are added where the keys are held."""

    @staticmethod
    def forward(
        ctx: Any, plan: FlashPlan, query_BHCK: Tensor, key_BGCK: Tensor, value_BGCK: Tensor
    ) -> Tensor:
        """Attend piece by piece, or take what the view's tape has kept."""
        qkv = (query_BHCK, key_BGCK, value_BGCK)

        def attend() -> Attended:
            parts = [_attended(plan, piece, qkv) for piece in plan.view.pieces]
            out, lse = (plan.view.assembled([part[i] for part in parts]) for i in (0, 1))
            return out, lse

        tape = plan.view.tape
        out_BHCK, lse_BHC = attend() if tape is None else tape.play(attend)
        # What is returned gets a grad_fn. Were it the taped tensor, the tape would hold this node and the
        # node, by its plan, the tape: keys and values would live until the collector of cycles runs.
        out_BHCK = out_BHCK.detach()
        ctx.plan = plan
        ctx.save_for_backward(*qkv, out_BHCK, lse_BHC)
        return out_BHCK

    @staticmethod
    def backward(ctx: Any, grad_BHCK: Tensor) -> tuple[Any, ...]:
        """Give each part's share; every part sees the merged output and log-sum-exp."""
        query, key, value, out, lse = ctx.saved_tensors
        sums = Sums(ctx.plan, (query, key, value), (grad_BHCK, out, lse))
        for piece in ctx.plan.view.pieces:
            sums.add_square(piece)
        for piece in ctx.plan.view.pieces:
            for block in ctx.plan.blocks(piece):
                for part in block.parts(KEYS_AT_ONCE):
                    sums.add_block(piece, part)
        return (None, *sums.totals)


class Sums:
    """dq, dk, dv of one chunk. Squares come first: they write, the blocks add."""

    def __init__(self, plan: FlashPlan, qkv: Inputs, given: Inputs) -> None:
        self.plan, self.qkv, self.given = plan, qkv, given
        self.totals: list[Tensor] = []

    def add_square(self, piece: Piece) -> None:
        """Add the shares of the piece's own square."""
        at = self.plan.view.own(piece)
        q, k, v = (x[at] for x in self.qkv)
        grad, out, lse = (x[at] for x in self.given)
        shares = self.plan.backward((grad, out, lse), (q, k, v), causal=True)
        if len(self.plan.view.pieces) == 1:
            self.totals = list(shares)
            return
        self.totals = self.totals or [torch.empty_like(x) for x in self.qkv]
        for total, share in zip(self.totals, shares, strict=True):
            total[at] = share

    def add_block(self, piece: Piece, block: Block) -> None:
        """Add the shares of one block, in the chunk or to the held keys."""
        view, at = self.plan.view, self.plan.view.own(piece)
        grad, out, lse = (block.turned(x[at][:, :, block.queries]) for x in self.given)
        query = block.turned(self.qkv[0][at][:, :, block.queries])
        key, value = (block.turned(x) for x in self.plan.keys(piece, block, self.qkv))
        shares = self.plan.backward((grad, out, lse), (query, key, value), causal=block.mirrored)
        dq, dk, dv = (block.turned(x) for x in shares)
        self.totals[0][at][:, :, block.queries] += dq
        place, inside = view.place(piece, block.keys)
        if inside:
            self.totals[1][place] += dk
            self.totals[2][place] += dv
        else:
            assert view.held is not None, "earlier keys are seen, and none are held"
            view.held.add_grads(place, dk, dv)


def _attended(plan: FlashPlan, piece: Piece, qkv: Inputs) -> Attended:
    q, k, v = (x[plan.view.own(piece)] for x in qkv)
    out, lse = plan.forward((q, k, v), causal=True)
    for block in plan.blocks(piece):
        seen = (q[:, :, block.queries], *plan.keys(piece, block, qkv))
        query, key, value = (block.turned(x) for x in seen)
        other = plan.forward((query, key, value), causal=block.mirrored)
        here = (slice(None), slice(None), block.queries)
        _merge_(out[here], lse[here], *(block.turned(x) for x in other))
    return out, lse


def _merge_(out: Tensor, lse: Tensor, other_out: Tensor, other_lse: Tensor) -> None:
    """Merge the other part into the first, in place."""
    both = torch.logaddexp(lse, other_lse)
    mine, its = ((part - both).exp_()[..., None] for part in (lse, other_lse))
    out.copy_(out * mine + other_out * its)
    lse.copy_(both)

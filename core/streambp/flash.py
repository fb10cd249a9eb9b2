"""A chunk's attention in parts that are merged by log-sum-exp, with no mask anywhere.

    o = sum_i exp(lse_i - lse) o_i,   lse = log sum_i exp(lse_i)

One part is the causal square on the chunk's own keys, the others are whole spans of earlier keys.
Each part's backward is the kernel's own, given the merged o and lse, as in ring attention
(arXiv 2310.01889). `is_causal` is asked of squares only: with fewer queries than keys torch aligns
it to the top left, and a chunk would see the wrong keys.

Legend: B rows, H query heads, G key heads, C chunk, S earlier keys, K head width.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.streambp.kernels import Attended, Inputs, Kernel
from core.streambp.layout import Piece

Place = tuple[slice, slice, slice]  # rows, heads, tokens


@dataclass(frozen=True, slots=True)
class FlashPlan:
    """How to attend from a chunk that begins at token `start`; earlier keys begin at `first`."""

    kernel: Kernel
    scale: float
    pieces: tuple[Piece, ...]
    start: int
    first: int

    def own(self, piece: Piece) -> Place:
        """Where the piece lies in the chunk."""
        return piece.rows, slice(None), slice(piece.start - self.start, piece.stop - self.start)

    def earlier(self, piece: Piece) -> list[Place]:
        """Where the spans that the piece sees lie in the earlier keys."""
        return [
            (piece.rows, slice(None), slice(span.start - self.first, span.stop - self.first))
            for span in piece.earlier
        ]


class FlashChunk(torch.autograd.Function):
    """out_BHCK of a chunk, whose earlier keys and values are inputs that collect gradient too."""

    @staticmethod
    def forward(
        ctx: Any,
        plan: FlashPlan,
        query_BHCK: Tensor,
        key_BGCK: Tensor,
        value_BGCK: Tensor,
        earlier_key_BGSK: Tensor | None,
        earlier_value_BGSK: Tensor | None,
    ) -> Tensor:
        """Attend piece by piece."""
        out_BHCK = torch.empty_like(query_BHCK, memory_format=torch.contiguous_format)
        wide = torch.promote_types(query_BHCK.dtype, torch.float32)
        lse_BHC = query_BHCK.new_empty(query_BHCK.shape[:3], dtype=wide)
        earlier = (earlier_key_BGSK, earlier_value_BGSK)
        for piece in plan.pieces:
            at = plan.own(piece)
            query = query_BHCK[at]
            attended = _square(plan, query, key_BGCK[at], value_BGCK[at])
            for span in plan.earlier(piece):
                attended = _merged(attended, _rectangle(plan, query, *_read(earlier, span)))
            out_BHCK[at], lse_BHC[at] = attended
        ctx.plan = plan
        ctx.save_for_backward(query_BHCK, key_BGCK, value_BGCK, *earlier, out_BHCK, lse_BHC)
        return out_BHCK

    @staticmethod
    def backward(ctx: Any, grad_BHCK: Tensor) -> tuple[Any, ...]:
        """Give each part's share; every part sees the merged output and log-sum-exp."""
        plan: FlashPlan = ctx.plan
        query, key, value, *earlier, out, lse = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (query, key, value)]
        sent = [torch.zeros_like(x) for x in earlier if x is not None]
        grad_BHCK = grad_BHCK.contiguous()
        for piece in plan.pieces:
            at = plan.own(piece)
            merged = (out[at].contiguous(), lse[at].contiguous())
            own = (query[at], key[at], value[at])
            shares = _square_backward(plan, grad_BHCK[at], own, merged)
            for whole, share in zip(grads, shares, strict=True):
                whole[at] = share
            for span in plan.earlier(piece):
                seen = (query[at], *_read(earlier, span))
                dq, dk, dv = _rectangle_backward(plan, grad_BHCK[at], seen, merged)
                grads[0][at] += dq
                sent[0][span] += dk
                sent[1][span] += dv
        return (None, *grads, *(sent or (None, None)))


def _read(pair: Any, at: Place) -> tuple[Tensor, Tensor]:
    return pair[0][at], pair[1][at]


def _repeat(x_BGCK: Tensor, heads: int) -> Tensor:
    return x_BGCK.repeat_interleave(heads // x_BGCK.shape[1], dim=1)


def _fold(x_BHCK: Tensor, key_heads: int) -> Tensor:
    """Lay the queries of one key head side by side: a rectangle does not care about their order."""
    return x_BHCK.reshape(x_BHCK.shape[0], key_heads, -1, *x_BHCK.shape[3:])


def _square(plan: FlashPlan, q: Tensor, k: Tensor, v: Tensor) -> Attended:
    repeated = (q, _repeat(k, q.shape[1]), _repeat(v, q.shape[1]))
    return plan.kernel.forward(repeated, causal=True, scale=plan.scale)


def _rectangle(plan: FlashPlan, q: Tensor, k: Tensor, v: Tensor) -> Attended:
    folded = (_fold(q, k.shape[1]), k, v)
    out, lse = plan.kernel.forward(folded, causal=False, scale=plan.scale)
    return out.reshape(q.shape), lse.reshape(q.shape[:3])


def _merged(one: Attended, other: Attended) -> Attended:
    lse = torch.logaddexp(one[1], other[1])
    mine, its = ((part - lse).exp()[..., None] for part in (one[1], other[1]))
    return (one[0] * mine + other[0] * its).to(one[0].dtype), lse


def _square_backward(plan: FlashPlan, grad: Tensor, qkv: Inputs, merged: Attended) -> Inputs:
    q, k, v = qkv
    heads, grouped = q.shape[1], (*k.shape[:2], -1, *k.shape[2:])
    repeated = (q, _repeat(k, heads), _repeat(v, heads))
    dq, dk, dv = plan.kernel.backward(grad, repeated, merged, causal=True, scale=plan.scale)
    return dq, dk.reshape(grouped).sum(2), dv.reshape(grouped).sum(2)


def _rectangle_backward(plan: FlashPlan, grad: Tensor, qkv: Inputs, merged: Attended) -> Inputs:
    q, k, v = qkv
    out, lse = (_fold(x, k.shape[1]) for x in merged)
    folded = (_fold(q, k.shape[1]), k, v)
    grad = _fold(grad, k.shape[1])
    dq, dk, dv = plan.kernel.backward(grad, folded, (out, lse), causal=False, scale=plan.scale)
    return dq.reshape(q.shape), dk, dv

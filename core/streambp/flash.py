"""A chunk's attention in parts that are merged by log-sum-exp, with no mask anywhere.

    o = sum_i exp(lse_i - lse) o_i,   lse = log sum_i exp(lse_i)

One part is the causal square on the chunk's own keys, the others are whole spans of earlier keys.
Each part's backward is the kernel's own, given the merged o and lse, as in ring attention
(arXiv 2310.01889). `is_causal` is asked of squares only: with fewer queries than keys torch aligns
it to the top left, and a chunk would see the wrong keys.

Legend: B rows, H query heads, G key heads, C chunk, S earlier keys, K head width.
"""

from typing import Any

import torch
from torch import Tensor

from core.streambp.kernels import Kernel
from core.streambp.layout import Piece


class FlashChunk(torch.autograd.Function):
    """out_BHCK of a chunk that begins at token `start` and whose earlier keys begin at `first`."""

    @staticmethod
    def forward(
        ctx: Any,
        query_BHCK: Tensor,
        key_BGCK: Tensor,
        value_BGCK: Tensor,
        earlier_key_BGSK: Tensor | None,
        earlier_value_BGSK: Tensor | None,
        pieces: tuple[Piece, ...],
        start: int,
        first: int,
        scale: float,
        kernel: Kernel,
    ) -> Tensor:
        out_BHCK = torch.empty_like(query_BHCK, memory_format=torch.contiguous_format)
        lse_BHC = torch.empty(
            query_BHCK.shape[:3], device=query_BHCK.device,
            dtype=torch.promote_types(query_BHCK.dtype, torch.float32),
        )  # fmt: skip
        earlier = (earlier_key_BGSK, earlier_value_BGSK)
        ctx.pieces, ctx.start, ctx.first, ctx.scale, ctx.kernel = pieces, start, first, scale, kernel
        for piece in pieces:
            at = _own(piece, start)
            out, lse = _square(kernel, query_BHCK[at], key_BGCK[at], value_BGCK[at], scale)
            for span in _spans(piece, first):
                part = _rectangle(kernel, query_BHCK[at], *_read(earlier, span), scale)
                out, lse = _merged(out, lse, *part)
            out_BHCK[at], lse_BHC[at] = out, lse
        ctx.save_for_backward(query_BHCK, key_BGCK, value_BGCK, *earlier, out_BHCK, lse_BHC)
        return out_BHCK

    @staticmethod
    def backward(ctx: Any, grad_BHCK: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        query, key, value, *earlier, out, lse = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in (query, key, value)]
        sent = [None if x is None else torch.zeros_like(x) for x in earlier]
        grad_BHCK = grad_BHCK.contiguous()
        for piece in ctx.pieces:
            at = _own(piece, ctx.start)
            merged = (out[at].contiguous(), lse[at].contiguous())
            parts = _square_backward(
                ctx.kernel, grad_BHCK[at], (query[at], key[at], value[at]), merged, ctx.scale
            )
            for whole, part in zip(grads, parts):
                whole[at] = part
            for span in _spans(piece, ctx.first):
                dq, dk, dv = _rectangle_backward(
                    ctx.kernel, grad_BHCK[at], (query[at], *_read(earlier, span)), merged, ctx.scale
                )
                grads[0][at] += dq
                sent[0][span] += dk
                sent[1][span] += dv
        return (*grads, *sent, None, None, None, None, None)


Place = tuple[slice, slice, slice]  # rows, heads, tokens


def _own(piece: Piece, start: int) -> Place:
    return piece.rows, slice(None), slice(piece.start - start, piece.stop - start)


def _spans(piece: Piece, first: int) -> list[Place]:
    return [
        (piece.rows, slice(None), slice(span.start - first, span.stop - first))
        for span in piece.earlier
    ]


def _read(pair: Any, at: Place) -> tuple[Tensor, Tensor]:
    return pair[0][at], pair[1][at]


def _repeat(x_BGCK: Tensor, heads: int) -> Tensor:
    return x_BGCK.repeat_interleave(heads // x_BGCK.shape[1], dim=1)


def _fold(x_BHCK: Tensor, key_heads: int) -> Tensor:
    """Queries of one key head side by side: a rectangle does not care about their order."""
    return x_BHCK.reshape(x_BHCK.shape[0], key_heads, -1, *x_BHCK.shape[3:])


def _square(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Any:
    heads = q.shape[1]
    return kernel.forward(q, _repeat(k, heads), _repeat(v, heads), True, scale)


def _rectangle(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Any:
    out, lse = kernel.forward(_fold(q, k.shape[1]), k, v, False, scale)
    return out.reshape(q.shape), lse.reshape(q.shape[:3])


def _merged(out: Tensor, lse: Tensor, other: Tensor, other_lse: Tensor) -> tuple[Tensor, Tensor]:
    both = torch.logaddexp(lse, other_lse)
    mine, its = (lse - both).exp()[..., None], (other_lse - both).exp()[..., None]
    return (out * mine + other * its).to(out.dtype), both


def _square_backward(
    kernel: Kernel, grad: Tensor, inputs: Any, merged: tuple[Tensor, Tensor], scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    heads, shape = q.shape[1], (*k.shape[:2], -1, *k.shape[2:])
    repeated = (q, _repeat(k, heads), _repeat(v, heads))
    dq, dk, dv = kernel.backward(grad, repeated, *merged, True, scale)
    return dq, dk.reshape(shape).sum(2), dv.reshape(shape).sum(2)


def _rectangle_backward(
    kernel: Kernel, grad: Tensor, inputs: Any, merged: tuple[Tensor, Tensor], scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    out, lse = (_fold(x, k.shape[1]) for x in merged)
    dq, dk, dv = kernel.backward(
        _fold(grad, k.shape[1]), (_fold(q, k.shape[1]), k, v), out, lse, False, scale
    )
    return dq.reshape(q.shape), dk, dv

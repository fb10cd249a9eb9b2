"""The attention function that transformers calls in every layer of an attached model.

What the chunk may see arrives where a mask would: as a `ChunkView`. Causal attention, whole or
through a sliding window, takes the flash kernels; anything else a family asks for (soft-capping,
sinks, dropout, unequal head widths) takes that family's own eager function over the keys the chunk
may see: slower, just as exact, chunk x keys of memory.

Legend: B rows, H query heads, C chunk, K head width.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from core.streambp.dtypes import as_autocast
from core.streambp.errors import LayerCallError
from core.streambp.flash import FlashChunk, FlashPlan
from core.streambp.grouped import Kernel
from core.streambp.kernels import flash_kernel
from core.streambp.pieces import Piece, Span
from core.streambp.view import ChunkView
from core.streambp.visibility import Rule


def stream_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: object,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend from one chunk: (B, C, H, K), and no attention weights."""
    view = attention_mask
    if isinstance(view, Rule):  # a layer that is not streamed sees the whole row as one chunk
        view = ChunkView(view, (0, query.shape[2]))
    if not isinstance(view, ChunkView):
        raise LayerCallError(
            "attention_mask", type(view).__name__, "an attached model makes its own: pass none"
        )
    query, key, value = (as_autocast(x) for x in (query, key, value))
    kernel = _kernel(view, (query, key, value), dropout, kwargs)
    if kernel is None:
        kwargs["dropout"] = dropout
        if scaling is not None:
            kwargs["scaling"] = scaling
        eager = _family_eager(module, kwargs)
        return _family_attention(view, (query, key, value), eager), None
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    plan = FlashPlan(kernel, scale, view, view.rule.window if view.rule.sliding else None)
    out_BHCK = FlashChunk.apply(plan, query, key, value)
    return out_BHCK.transpose(1, 2).contiguous(), None


def _kernel(
    view: ChunkView, qkv: tuple[Tensor, ...], dropout: float, kwargs: dict[str, Any]
) -> Kernel | None:
    q, k, v = qkv
    alike = q.dtype == k.dtype == v.dtype and q.shape[-1] == k.shape[-1] == v.shape[-1]
    # A tensor or a cap that the family hands to its attention changes the scores.
    special = kwargs.get("softcap") is not None or any(
        isinstance(x, Tensor) for name, x in kwargs.items() if name not in _HARMLESS
    )
    known = view.rule.causal or view.rule.sliding
    if not (known and alike and dropout == 0.0) or special:
        return None
    return flash_kernel(q.device.type, q.dtype, q.shape[-1])


_HARMLESS = {"position_ids", "cache_position"}  # tensors that no attention function computes with


Eager = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # q, k, v and an additive mask


def _family_attention(view: ChunkView, qkv: tuple[Tensor, ...], eager: Eager) -> Tensor:
    parts = [_family_piece(view, piece, qkv, eager).transpose(1, 2) for piece in view.pieces]
    return view.assembled(parts).transpose(1, 2)


def _family_piece(view: ChunkView, piece: Piece, qkv: tuple[Tensor, ...], eager: Eager) -> Tensor:
    query, *own = (x[view.own(piece)] for x in qkv)
    spans = [_seen(view, piece, span, qkv) for span in piece.earlier]
    key, value = (
        torch.cat([*(pair[i].to(x.dtype) for pair in spans), x], dim=2) if spans else x
        for i, x in enumerate(own)
    )
    hidden = ~view.rule.mask(piece, query.device)
    mask = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
    return eager(query, key, value, mask.masked_fill(hidden, torch.finfo(query.dtype).min))


def _seen(view: ChunkView, piece: Piece, span: Span, qkv: tuple[Tensor, ...]) -> Any:
    place, inside = view.place(piece, span)
    return (qkv[1][place], qkv[2][place]) if inside else view.leaf(place)


def _family_eager(module: torch.nn.Module, kwargs: dict[str, Any]) -> Eager:
    """Find the function that the family's own modelling file attends with."""
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise LayerCallError(
            "attention", type(module).__name__, "its family has no eager attention to fall back on"
        )
    return lambda *tensors: eager(module, *tensors, **kwargs)[0]

"""The attention function that transformers calls in every layer of an attached model.

What the chunk may see arrives where a mask would: as a `ChunkView`. Plain causal attention takes
the flash kernels; anything else a family asks for (sliding windows, soft-capping, sinks, dropout,
unequal head widths) takes that family's own eager function over the keys the chunk may see: slower,
just as exact, chunk x keys of memory.

Legend: B rows, H query heads, G key heads, C chunk, S earlier keys, K head width.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from core.streambp.errors import LayerCallError
from core.streambp.flash import FlashChunk, FlashPlan
from core.streambp.kernels import Kernel, flash_kernel
from core.streambp.keys import HeldKeys, as_autocast
from core.streambp.layout import Piece
from core.streambp.visibility import IMPLEMENTATION, Rule


class ChunkView:
    """What the chunk `start:stop` of one run of one layer may see.

    `earlier` are the keys and values from token `first` on, leaves of the chunk's graph, or None.
    """

    def __init__(self, rule: Rule, start: int, stop: int, held: HeldKeys | None = None) -> None:
        self.rule = rule
        self.start, self.stop = start, stop
        self.pieces = rule.pieces(start, stop)
        spans = [span for piece in self.pieces for span in piece.earlier]
        self.first = min((span.start for span in spans), default=start)
        self.earlier: tuple[Tensor, Tensor] | None = None
        if spans and held is not None and self.first < start:
            self.earlier = held.read(self.first, start)

    def with_leaves(self) -> tuple[Tensor, ...]:
        """Make the earlier keys and values leaves that collect gradient, and return them."""
        if self.earlier is None:
            return ()
        self.earlier = tuple(  # type: ignore[assignment]
            x.detach().requires_grad_() for x in self.earlier
        )
        return self.earlier  # type: ignore[return-value]


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
        view = ChunkView(view, 0, query.shape[2])
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
    plan = FlashPlan(kernel, scale, view.pieces, view.start, view.first)
    out = FlashChunk.apply(plan, query, key, value, *(view.earlier or (None, None)))
    return out.transpose(1, 2).contiguous(), None


def _kernel(
    view: ChunkView, qkv: tuple[Tensor, ...], dropout: float, kwargs: dict[str, Any]
) -> Kernel | None:
    q, k, v = qkv
    alike = q.dtype == k.dtype == v.dtype and q.shape[-1] == k.shape[-1] == v.shape[-1]
    # A tensor or a cap that the family hands to its attention changes the scores.
    special = kwargs.get("softcap") is not None or any(
        isinstance(x, Tensor) for name, x in kwargs.items() if name not in _HARMLESS
    )
    if not (view.rule.causal and alike and dropout == 0.0) or special:
        return None
    return flash_kernel(q.device.type, q.dtype, q.shape[-1])


_HARMLESS = {"position_ids", "cache_position"}  # tensors that no attention function computes with


Eager = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # q, k, v and an additive mask


def _family_attention(view: ChunkView, qkv: tuple[Tensor, ...], eager: Eager) -> Tensor:
    # Pieces cover the chunk row by row and, within a row, in the order of its tokens.
    rows: dict[int, list[Tensor]] = {}
    for piece in view.pieces:
        rows.setdefault(piece.first_row, []).append(_family_piece(view, piece, qkv, eager))
    return torch.cat([torch.cat(parts, dim=1) for parts in rows.values()], dim=0)


def _family_piece(view: ChunkView, piece: Piece, qkv: tuple[Tensor, ...], eager: Eager) -> Tensor:
    own = (piece.rows, slice(None), slice(piece.start - view.start, piece.stop - view.start))
    query, key, value = (x[own] for x in qkv)
    if view.earlier is not None:
        spans = [slice(s.start - view.first, s.stop - view.first) for s in piece.earlier]
        key, value = (
            torch.cat([*(past[piece.rows, :, span].to(x.dtype) for span in spans), x], dim=2)
            for past, x in zip(view.earlier, (key, value), strict=True)
        )
    hidden = ~view.rule.mask(piece, query.device)
    mask = torch.zeros(hidden.shape, dtype=query.dtype, device=query.device)
    return eager(query, key, value, mask.masked_fill(hidden, torch.finfo(query.dtype).min))


def _family_eager(module: torch.nn.Module, kwargs: dict[str, Any]) -> Eager:
    """Find the function that the family's own modelling file attends with."""
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise LayerCallError(
            "attention", type(module).__name__, "its family has no eager attention to fall back on"
        )
    return lambda *tensors: eager(module, *tensors, **kwargs)[0]


AttentionInterface.register(IMPLEMENTATION, stream_attention)

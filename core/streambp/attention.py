"""The attention function that transformers calls in every layer of an attached model.

What the chunk may see arrives where a mask would: as a `ChunkView`. Plain causal attention takes
the flash kernels; anything else a family asks for (sliding windows, soft-capping, sinks, dropout,
unequal head widths) takes that family's own eager function over the keys the chunk may see: slower,
just as exact, chunk x keys of memory.

Legend: B rows, H query heads, G key heads, C chunk, S earlier keys, K head width.
"""

import sys
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from core.streambp.errors import LayerCallError
from core.streambp.flash import FlashChunk
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
    """Attention (B, C, H, K) of one chunk; the signature is that of transformers' interface."""
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
        return _family_attention(module, view, (query, key, value), kwargs), None
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    earlier = view.earlier or (None, None)
    out = FlashChunk.apply(
        query, key, value, *earlier, view.pieces, view.start, view.first, scale, kernel
    )
    return out.transpose(1, 2), None


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


def _family_attention(
    module: torch.nn.Module, view: ChunkView, qkv: tuple[Tensor, ...], kwargs: dict[str, Any]
) -> Tensor:
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise LayerCallError(
            "attention", type(module).__name__, "its family has no eager attention to fall back on"
        )
    # Pieces cover the chunk row by row and, within a row, in the order of its tokens.
    rows: dict[int, list[Tensor]] = {}
    for piece in view.pieces:
        out = _family_piece(eager, module, view, piece, qkv, kwargs)
        rows.setdefault(piece.first_row, []).append(out)
    return torch.cat([torch.cat(parts, dim=1) for parts in rows.values()], dim=0)


def _family_piece(
    eager: Any,
    module: torch.nn.Module,
    view: ChunkView,
    piece: Piece,
    qkv: tuple[Tensor, ...],
    kwargs: dict[str, Any],
) -> Tensor:
    own = (piece.rows, slice(None), slice(piece.start - view.start, piece.stop - view.start))
    query, key, value = (x[own] for x in qkv)
    if view.earlier is not None:
        spans = [slice(s.start - view.first, s.stop - view.first) for s in piece.earlier]
        key, value = (
            torch.cat([*(past[piece.rows, :, span].to(x.dtype) for span in spans), x], dim=2)
            for past, x in zip(view.earlier, (key, value))
        )
    allowed = view.rule.mask(piece, query.device)
    hidden = torch.finfo(query.dtype).min
    mask = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    mask = mask.masked_fill(~allowed, hidden)
    return eager(module, query, key, value, mask, **kwargs)[0]


AttentionInterface.register(IMPLEMENTATION, stream_attention)

"""Attention that has shapes and no numbers, and notes what a real chunk would need besides.

transformers finds it under PLANNED. A kernel's tensors are counted as they are made; scores, which
a family's own attention spells out, are a formula of `phases`.

Legend: B rows, H query heads, C chunk, K head width.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

PLANNED = "streambp_plan"


@dataclass(slots=True)
class Seen:
    """How a layer's attention was called; zeros where it never was."""

    key_width: int = 0
    value_width: int = 0
    attention_width: int = 0
    query_heads: int = 0
    window: int | None = None
    eager: bool = False


_watched: list[Seen] = []


@contextmanager
def watching() -> Iterator[Seen]:
    """Note how the attention of one layer is called."""
    seen = Seen()
    _watched.append(seen)
    try:
        yield seen
    finally:
        _watched.pop()


def _planned_attention(
    _module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *_mask: object,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attend with a kernel that knows shapes, and note what a real chunk would need besides."""
    seen = _watched[-1]
    seen.key_width, seen.value_width = (x.shape[1] * x.shape[3] for x in (key, value))
    seen.query_heads, seen.attention_width = query.shape[1], query.shape[1] * value.shape[3]
    seen.window = kwargs.get("sliding_window")
    special = any(kwargs.get(name) is not None for name in ("softcap", "s_aux", "position_bias"))
    seen.eager = special or dropout != 0.0 or query.shape[-1] != value.shape[-1]
    out_BHCK = _Attend.apply(query, key, value)
    return out_BHCK.transpose(1, 2).contiguous(), None


class _Attend(torch.autograd.Function):
    """The tensors that an attention kernel takes, keeps and gives; no computation."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out_BHCK = query.new_empty(*query.shape[:3], value.shape[3])
        lse_BHC = query.new_empty(query.shape[:3], dtype=torch.float32)
        ctx.save_for_backward(query, key, value, out_BHCK, lse_BHC)
        return out_BHCK

    @staticmethod
    def backward(ctx: Any, _grad_BHCK: Tensor) -> tuple[Tensor, ...]:
        query, key, value, *_ = ctx.saved_tensors
        return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


AttentionInterface.register(PLANNED, _planned_attention)
AttentionMaskInterface.register(PLANNED, lambda *_args, **_kwargs: None)

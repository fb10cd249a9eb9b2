"""Which keys a query may see: the family's own rule over the documents of a layout, never a mask.

Transformers asks the mask function registered under a model's attention implementation for a
T x T mask. Ours answers with a `Rule`, a description that travels to the layers in the mask's
place: the family's mask function (causal, sliding, chunked) and the layout. A layer that would do
arithmetic with a mask fails loudly on it; none loses its mask in silence.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import causal_mask_function

from core.streambp.errors import LayerCallError
from core.streambp.inforce import in_force
from core.streambp.layout import Layout
from core.streambp.pieces import Piece

_ROWS_BY_TOKENS = 2

MaskFunction = Callable[..., Any]  # of indices (row, head, query, key): may it be seen?

# Set around one call of a model, and per thread: the only road for a value through a family's own
# forward to the function that makes its masks.
_layout: ContextVar[Layout | None] = ContextVar("streambp_layout", default=None)


@dataclass(frozen=True, slots=True)
class Rule:
    """`allows(b, h, q, k)` by position inside a document; no key older than `window` is seen.

    `causal` is True where the rule is nothing but causality, `sliding` where it is nothing but
    causality and the window: kernels know these by themselves.
    """

    allows: MaskFunction
    layout: Layout
    window: int | None
    causal: bool
    sliding: bool

    def pieces(self, start: int, stop: int) -> tuple[Piece, ...]:
        """Cut a chunk into pieces, their earlier spans no wider than the window."""
        return self.layout.pieces(start, stop, self.window)

    def mask(self, piece: Piece, device: torch.device) -> Tensor:
        """Spell one piece out as booleans (rows, 1, queries, keys): earlier spans, then its own."""
        own = torch.arange(piece.stop - piece.start, device=device) + piece.position
        earlier = [
            torch.arange(span.stop - span.start, device=device) + span.position
            for span in piece.earlier
        ]
        rows = torch.arange(piece.first_row, piece.last_row, device=device)
        keys = torch.cat([*earlier, own])
        allowed = self.allows(
            rows[:, None, None, None], rows.new_zeros(1, 1, 1, 1), own[:, None], keys[None, :]
        )
        return allowed.expand(len(rows), 1, len(own), len(keys))


def layout_in_force(layout: Layout) -> AbstractContextManager[None]:
    """While the block runs, masks made in this thread describe `layout`."""
    return in_force(_layout, layout)


def describe_mask(  # noqa: PLR0913  the signature is transformers'
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: MaskFunction = causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    use_vmap: bool = False,
    allow_is_causal_skip: bool = True,
    device: torch.device | str = "cpu",
    **_: Any,
) -> Rule:
    """Answer transformers' request for a mask with the rule that the mask would spell out."""
    if q_length != kv_length:
        raise LayerCallError("cache", kv_length, "pass use_cache=False: keys must be the queries'")
    if attention_mask is not None:
        _check_padded_right(attention_mask)
    _check_causal(mask_function, batch_size, q_length, torch.device(device), overlaid=use_vmap)
    layout = _layout.get() or Layout.causal([q_length] * batch_size, q_length)
    # A window as long as the row is no window, unless transformers put more into the function.
    whole = local_size is not None and local_size >= q_length and allow_is_causal_skip
    causal = mask_function is causal_mask_function or whole
    window = None if causal else local_size
    sliding = window is not None and _is_sliding(
        mask_function, window, torch.arange(q_length, device=device)
    )
    return Rule(mask_function, layout, window, causal, sliding)


def _is_sliding(allows: MaskFunction, window: int, index_T: Tensor) -> bool:
    """Say whether every query sees exactly the `window` latest keys, by trial along diagonals."""
    zero, tokens = index_T.new_zeros(1), len(index_T)
    for back in {0, 1, window // 2, window - 1, window, window + 1} & set(range(tokens)):
        seen = allows(zero, zero, index_T[back:], index_T[: tokens - back])
        if bool((seen != (back < window)).any()):
            return False
    return True


def _check_padded_right(attention_mask: Tensor) -> None:
    mask = attention_mask.bool()
    if mask.ndim != _ROWS_BY_TOKENS or bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        raise LayerCallError(
            "attention_mask",
            tuple(attention_mask.shape),
            "pad on the right, or say what is visible with Layout.packed and token_logps",
        )


def _check_causal(
    allows: MaskFunction, rows: int, tokens: int, device: torch.device, *, overlaid: bool
) -> None:
    row = torch.arange(rows, device=device)[:, None]
    index = torch.arange(tokens, device=device)
    later = allows(row, row.new_zeros(1, 1), index[:-1], index[1:])
    if overlaid or bool(later.any()):
        raise LayerCallError(
            "mask_function", allows, "only causal attention is streamed: detach the model"
        )

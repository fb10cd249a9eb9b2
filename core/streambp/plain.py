"""The oracle: the same log-probabilities by ordinary autograd, one document at a time.

Each document runs alone through the untouched model, with eager attention and whole logits. There
is no padding, no packing, no mask and no chunk to get wrong. For small models only.

Legend: B rows, T tokens.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from core.streambp.layout import Layout
from core.streambp.logps import IGNORED, check_batch


def token_logps(
    model: PreTrainedModel, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout
) -> Tensor:
    """As `core.streambp.token_logps`, of a model that is *not* attached."""
    check_batch(input_ids_BT, target_ids_BT, layout)
    rows = []
    with _eager(model):
        for row, starts in enumerate(layout.starts):
            bounds = zip(starts, (*starts[1:], layout.real[row]), strict=True)
            parts = [
                _document(model, input_ids_BT[row, s:e], target_ids_BT[row, s:e]) for s, e in bounds
            ]
            parts.append(parts[0].new_zeros(layout.tokens - layout.real[row]))
            rows.append(torch.cat(parts))
    return torch.stack(rows)


def _document(model: PreTrainedModel, ids_T: Tensor, targets_T: Tensor) -> Tensor:
    logits_TV = model(input_ids=ids_T[None], use_cache=False).logits[0]
    dtype = torch.promote_types(logits_TV.dtype, torch.float32)
    scored_T = targets_T != IGNORED
    picked_T1 = targets_T.where(scored_T, 0)[:, None]
    logp_T = logits_TV.to(dtype).log_softmax(-1).gather(1, picked_T1)[:, 0]
    return logp_T.where(scored_T, 0)


@contextmanager
def _eager(model: PreTrainedModel) -> Iterator[None]:
    before = model.config._attn_implementation  # noqa: SLF001  has no public setter
    model.config._attn_implementation = "eager"  # noqa: SLF001
    try:
        yield
    finally:
        model.config._attn_implementation = before  # noqa: SLF001

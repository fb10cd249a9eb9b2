"""The oracle: the same log-probabilities by ordinary autograd, one document at a time.

Each document runs alone through the untouched model, with eager attention and whole logits; each
answer runs with a prompt of its own before it. There is no padding, no packing, no sharing, no mask
and no chunk to get wrong. For small models only.

Legend: B rows, T tokens, S tokens of a segment, P tokens of what it sees, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel

from core.streambp.layout import Layout
from core.streambp.logps import IGNORED, check_answers, check_batch
from core.streambp.pieces import Segment


def token_logps(
    model: PreTrainedModel, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout
) -> Tensor:
    """As `core.streambp.token_logps`, of a model that is *not* attached."""
    check_batch(input_ids_BT, target_ids_BT, layout)
    return _scored(model, input_ids_BT, target_ids_BT, layout, back=0)


def answer_logps(
    model: PreTrainedModel, input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout
) -> Tensor:
    """As `core.streambp.answer_logps`, of a model that is *not* attached."""
    check_answers(input_ids_BT, scored_BT, layout)
    return _scored(model, input_ids_BT, input_ids_BT.where(scored_BT, IGNORED), layout, back=1)


def _scored(
    model: PreTrainedModel, ids_BT: Tensor, targets_BT: Tensor, layout: Layout, *, back: int
) -> Tensor:
    """Look targets up in what is predicted `back` tokens before their own place."""
    rows = []
    with _eager(model):
        for ids_T, targets_T, segments, real in zip(
            ids_BT, targets_BT, layout.segments, layout.real, strict=True
        ):
            parts = [_segment(model, ids_T[:real], targets_T[:real], s, back) for s in segments]
            parts.append(parts[0].new_zeros(layout.tokens - real))
            rows.append(torch.cat(parts))
    return torch.stack(rows)


def _segment(
    model: PreTrainedModel, ids_T: Tensor, targets_T: Tensor, segment: Segment, back: int
) -> Tensor:
    own = slice(segment.start, segment.stop)
    seen = [ids_T[span.start : span.stop] for span in segment.prefix]
    ids_P = torch.cat([*seen, ids_T[own]])
    logits_PV = model(input_ids=ids_P[None], use_cache=False).logits[0]
    dtype = torch.promote_types(logits_PV.dtype, torch.float32)
    table_PV = pad(logits_PV.to(dtype).log_softmax(-1), (0, 0, back, 0))[: len(ids_P)]
    targets_S = targets_T[own]
    scored_S = targets_S != IGNORED
    picked_S1 = targets_S.where(scored_S, 0)[:, None]
    return table_PV[-len(targets_S) :].gather(1, picked_S1)[:, 0].where(scored_S, 0)


@contextmanager
def _eager(model: PreTrainedModel) -> Iterator[None]:
    before = model.config._attn_implementation  # noqa: SLF001  has no public setter
    model.config._attn_implementation = "eager"  # noqa: SLF001
    try:
        yield
    finally:
        model.config._attn_implementation = before  # noqa: SLF001

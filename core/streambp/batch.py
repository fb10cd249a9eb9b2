"""Whether tokens, what is to be scored of them, and their layout describe one batch.

Legend: B rows, T tokens.
"""

import torch
from torch import Tensor

from core.streambp.errors import TargetError
from core.streambp.layout import Layout

IGNORED = -100  # the target of a token that is not scored


def check_batch(input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout) -> None:
    """Raise LayoutError or TargetError unless the three describe one batch."""
    _check("target_ids", input_ids_BT, target_ids_BT, target_ids_BT != IGNORED, layout)


def check_answers(input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout) -> None:
    """Raise LayoutError or TargetError unless each token to be scored is predicted by another."""
    if scored_BT.dtype != torch.bool:
        raise TargetError("scored", scored_BT.dtype, "give booleans: which tokens are scored")
    _check("scored", input_ids_BT, scored_BT, scored_BT, layout)
    first_BT = (layout.predictors() < 0).to(scored_BT.device)
    if bool((first_BT & scored_BT).any()):
        raise TargetError("scored", "the first of a document", "nothing comes before it: leave it")


def _check(
    field: str, input_ids_BT: Tensor, given_BT: Tensor, scored_BT: Tensor, layout: Layout
) -> None:
    if input_ids_BT.ndim != 2:  # noqa: PLR2004
        raise TargetError("input_ids", tuple(input_ids_BT.shape), "give rows x tokens")
    if input_ids_BT.shape != given_BT.shape:
        raise TargetError(
            field, tuple(given_BT.shape), f"give {tuple(input_ids_BT.shape)}, like ids"
        )
    layout.check_covers(*input_ids_BT.shape)
    real_B = torch.tensor(layout.real, device=scored_BT.device)
    index_T = torch.arange(layout.tokens, device=scored_BT.device)
    if bool((scored_BT & (index_T[None] >= real_B[:, None])).any()):
        raise TargetError(field, "scored padding", "score no token where a row is padded")

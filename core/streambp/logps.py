"""Per-token log-probabilities of an attached model: what every objective is a function of.

Legend: B rows, T tokens, N scored tokens, D width.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from core.streambp.attach import Attachment, attachment_of
from core.streambp.errors import LayoutError, TargetError, at_least_one
from core.streambp.head import HeadLogps
from core.streambp.layout import Layout
from core.streambp.visibility import layout_in_force

IGNORED = -100  # the target of a token that is not scored


def token_logps(
    model: nn.Module,
    input_ids_BT: Tensor,
    target_ids_BT: Tensor,
    layout: Layout,
    *,
    head_chunk_tokens: int,
) -> Tensor:
    """logp_BT: the log-probability of target_ids_BT[b, t] given tokens 0..t of its document.

    `model` is attached. Targets are not shifted here; -100 is not scored: 0 there, no gradient, no
    cost in the head. Float32, or float64 for float64 models. Raises StreamErrors.
    """
    at_least_one("head_chunk_tokens", head_chunk_tokens)
    attachment = attachment_of(model)
    check_batch(input_ids_BT, target_ids_BT, layout)
    hidden_MD = _hidden(attachment, input_ids_BT, layout).flatten(0, 1)
    targets_M = target_ids_BT.to(hidden_MD.device).flatten()
    places_N = (targets_M != IGNORED).nonzero()[:, 0]
    head = attachment.head
    logp_N = HeadLogps.apply(
        head, head_chunk_tokens, places_N, targets_M[places_N], hidden_MD, *head.output.parameters()
    )
    logp_M = logp_N.new_zeros(len(targets_M)).index_copy(0, places_N, logp_N)
    return logp_M.view(input_ids_BT.shape)


def check_batch(input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout) -> None:
    """Raise LayoutError or TargetError unless the three describe one batch."""
    if input_ids_BT.ndim != 2:  # noqa: PLR2004
        raise TargetError("input_ids", tuple(input_ids_BT.shape), "give rows x tokens")
    if input_ids_BT.shape != target_ids_BT.shape:
        raise TargetError(
            "target_ids", tuple(target_ids_BT.shape), f"give {tuple(input_ids_BT.shape)}, like ids"
        )
    layout.check_covers(*input_ids_BT.shape)
    real_B = torch.tensor(layout.real, device=target_ids_BT.device)
    index_T = torch.arange(layout.tokens, device=target_ids_BT.device)
    padded_BT = index_T[None] >= real_B[:, None]
    if bool((padded_BT & (target_ids_BT != IGNORED)).any()):
        raise TargetError("target_ids", "scored padding", f"put {IGNORED} where a row is padded")


def _hidden(attachment: Attachment, input_ids_BT: Tensor, layout: Layout) -> Tensor:
    """Hidden states after the final norm, of shape (B, T, D)."""
    streamed = all(report.status == "streamed" for report in attachment.layers)
    if not streamed and not layout.is_plain:
        raise LayoutError(
            "layout", "packed", "give one document a row: a checkpointed layer mixes documents"
        )
    decoder = attachment.decoder
    # A mask of ones keeps transformers from guessing documents out of the position ids.
    given: dict[str, Any] = {
        "position_ids": layout.position_ids().to(input_ids_BT.device),
        "attention_mask": torch.ones_like(input_ids_BT, dtype=torch.bool),
        "use_cache": False,
    }
    parameters = inspect.signature(decoder.forward).parameters
    given = {name: value for name, value in given.items() if name in parameters}
    with layout_in_force(layout):
        return decoder(input_ids=input_ids_BT, **given).last_hidden_state

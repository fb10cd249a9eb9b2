"""Per-token log-probabilities of an attached model: what every objective is a function of.

Legend: B rows, T tokens, M = B * T, N scored tokens, D width.
"""

import inspect
from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from core.streambp.attach import Attachment, attachment_of
from core.streambp.batch import IGNORED, check_answers, check_batch
from core.streambp.errors import LayoutError, at_least_one
from core.streambp.layout import Layout
from core.streambp.scores import HeadScores, Scoring
from core.streambp.visibility import layout_in_force

__all__ = ["IGNORED", "answer_logps", "check_answers", "check_batch", "token_logps"]

Scores = Tensor | tuple[Tensor, Tensor]


@overload
def token_logps(
    model: nn.Module, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[False] = ...,
    linear_weight_BT: Tensor | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def token_logps(
    model: nn.Module, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[True],
    linear_weight_BT: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def token_logps(
    model: nn.Module,
    input_ids_BT: Tensor,
    target_ids_BT: Tensor,
    layout: Layout,
    *,
    head_chunk_tokens: int,
    temperature: float = 1.0,
    with_entropy: bool = False,
    linear_weight_BT: Tensor | None = None,
) -> Scores:
    """logp_BT: the log-probability of target_ids_BT[b, t] given tokens 0..t of its document.

    `model` is attached. Targets are not shifted here; -100 is not scored: 0 there, no gradient, no
    cost in the head. Float32, or float64 for float64 models. Logits are divided by `temperature`.

    `with_entropy` gives (logp_BT, entropy_BT): the entropy in nats of the distribution that each
    target was looked up in, 0 where nothing is scored; it can be differentiated.

    `linear_weight_BT` promises that the objective's gradient with respect to logp_BT is these
    weights times one number. The head then makes its gradient in the forward pass and saves a
    product; the promise is checked in the backward pass, of which there can be one only, and
    entropy carries no gradient. Raises StreamErrors.
    """
    check_batch(input_ids_BT, target_ids_BT, layout)
    slots_N = (target_ids_BT.flatten() != IGNORED).nonzero()[:, 0]
    wanted = _Wanted(slots_N, slots_N, target_ids_BT.flatten()[slots_N])
    return _scores(
        model, input_ids_BT, layout, wanted, linear_weight_BT,
        tile_tokens=head_chunk_tokens, temperature=temperature, entropy=with_entropy,
    )  # fmt: skip


@overload
def answer_logps(
    model: nn.Module, input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[False] = ...,
    linear_weight_BT: Tensor | None = ...,
) -> Tensor: ...  # fmt: skip
@overload
def answer_logps(
    model: nn.Module, input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[True],
    linear_weight_BT: Tensor | None = ...,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
def answer_logps(
    model: nn.Module,
    input_ids_BT: Tensor,
    scored_BT: Tensor,
    layout: Layout,
    *,
    head_chunk_tokens: int,
    temperature: float = 1.0,
    with_entropy: bool = False,
    linear_weight_BT: Tensor | None = None,
) -> Scores:
    """logp_BT: the log-probability of token input_ids_BT[b, t] itself, at its own place.

    It is given what comes before it: in its document or, for an answer, in the prompt and the
    answer. So nothing is shifted, and the first token of every answer, which the prompt's last
    token predicts, has a place. `scored_BT`, bool, says which tokens are scored: none that opens a
    document, none of padding. The rest is as in `token_logps`.
    """
    check_answers(input_ids_BT, scored_BT, layout)
    slots_N = scored_BT.flatten().nonzero()[:, 0]
    row_N = slots_N.div(layout.tokens, rounding_mode="floor") * layout.tokens
    before_N = layout.predictors().to(slots_N.device).flatten()[slots_N]
    wanted = _Wanted(slots_N, row_N + before_N, input_ids_BT.flatten()[slots_N])
    return _scores(
        model, input_ids_BT, layout, wanted, linear_weight_BT,
        tile_tokens=head_chunk_tokens, temperature=temperature, entropy=with_entropy,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Scores of targets_N under the hidden states at places_N, to be put into slots_N."""

    slots_N: Tensor
    places_N: Tensor
    targets_N: Tensor


def _scores(
    model: nn.Module, input_ids_BT: Tensor, layout: Layout, wanted: _Wanted,
    linear_weight_BT: Tensor | None, *, tile_tokens: int, temperature: float, entropy: bool,
) -> Scores:  # fmt: skip
    attachment = attachment_of(model)
    head = attachment.head.at(temperature)
    at_least_one("head_chunk_tokens", tile_tokens)
    hidden_MD = _hidden(attachment, input_ids_BT, layout).flatten(0, 1)
    slots_N, places_N, targets_N = (
        x.to(hidden_MD.device) for x in (wanted.slots_N, wanted.places_N, wanted.targets_N)
    )
    weight_N = None
    if linear_weight_BT is not None and torch.is_grad_enabled():
        weight_N = linear_weight_BT.to(hidden_MD.device).flatten()[slots_N]
    scoring = Scoring(head, places_N, targets_N, tile_tokens, entropy, weight_N)
    logp_N, entropy_N = HeadScores.apply(scoring, hidden_MD, *head.output.parameters())
    logp_BT = _table(logp_N, slots_N, input_ids_BT.shape)
    return (logp_BT, _table(entropy_N, slots_N, input_ids_BT.shape)) if entropy else logp_BT


def _table(x_N: Tensor, slots_N: Tensor, shape: torch.Size) -> Tensor:
    """Spread what was computed for scored tokens over all, 0 elsewhere."""
    return x_N.new_zeros(shape.numel()).index_copy(0, slots_N, x_N).view(shape)


def _hidden(attachment: Attachment, input_ids_BT: Tensor, layout: Layout) -> Tensor:
    """Hidden states after the final norm, of shape (B, T, D)."""
    mixing = [x.name for x in attachment.layers if x.status == "checkpointed" or x.carries]
    if mixing and not layout.is_plain:
        raise LayoutError(
            "layout", "packed", f"give one document a row: {mixing[0]} mixes documents"
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

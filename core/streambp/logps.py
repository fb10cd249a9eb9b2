"""Per-token log-probabilities of an attached model: what every objective is a function of.

Legend: B rows, T tokens, M = B * T, N scored tokens, D width.
"""

import inspect
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from core.ranks import as_forward
from core.streambp.anatomy import causal_lm
from core.streambp.attach import Attachment, attachment_of
from core.streambp.batch import IGNORED, check_answers, check_batch
from core.streambp.errors import LayoutError, TargetError, at_least_one
from core.streambp.late import last_module_late
from core.streambp.layout import Layout
from core.streambp.ledger import Ledger, Settle, keeping
from core.streambp.scores import HeadScores, LinearScores, Scoring
from core.streambp.visibility import layout_in_force

__all__ = [
    "IGNORED",
    "answer_logps",
    "backward_linear",
    "check_answers",
    "check_batch",
    "token_logps",
]

Scores = Tensor | tuple[Tensor, Tensor]


@overload
def token_logps(
    model: nn.Module, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def token_logps(
    model: nn.Module, input_ids_BT: Tensor, target_ids_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[True],
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
) -> Scores:
    """logp_BT: the log-probability of target_ids_BT[b, t] given tokens 0..t of its document.

    `model` is attached. Targets are not shifted here; -100 is not scored: 0 there, no gradient, no
    cost in the head. Float32, or float64 for float64 models. Logits are divided by `temperature`.

    `with_entropy` gives (logp_BT, entropy_BT): the entropy in nats of the distribution that each
    target was looked up in, 0 where nothing is scored; it can be differentiated.

    For an objective that is linear in them see `backward_linear`. Raises StreamErrors.
    """
    check_batch(input_ids_BT, target_ids_BT, layout)
    wanted = _of_targets(target_ids_BT)
    return _scores(
        model, input_ids_BT, layout, wanted,
        tile_tokens=head_chunk_tokens, temperature=temperature, entropy=with_entropy,
    )  # fmt: skip


@overload
def answer_logps(
    model: nn.Module, input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[False] = ...,
) -> Tensor: ...  # fmt: skip
@overload
def answer_logps(
    model: nn.Module, input_ids_BT: Tensor, scored_BT: Tensor, layout: Layout, *,
    head_chunk_tokens: int, temperature: float = ..., with_entropy: Literal[True],
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
        model, input_ids_BT, layout, wanted,
        tile_tokens=head_chunk_tokens, temperature=temperature, entropy=with_entropy,
    )  # fmt: skip


def backward_linear(
    model: nn.Module,
    input_ids_BT: Tensor,
    target_ids_BT: Tensor,
    layout: Layout,
    weight_BT: Tensor,
    *,
    head_chunk_tokens: int,
    temperature: float = 1.0,
    settle: Settle | None = None,
) -> Tensor:
    """Add the gradient of (weight_BT * logp_BT).sum() to every `.grad`; give logp_BT, no graph.

    What `token_logps` and a backward pass would do, for an objective whose gradient with respect to
    logp_BT is known beforehand: the head makes each tile of logits once instead of twice, and
    gradients of parameters without hooks are summed where they are to lie. weight_BT counts only
    where a target is scored.

    `settle` is told of each weight, once, as soon as all of its gradient lies in `.grad`: while its
    layer is the last that was walked, and no layer below has been. It may step and free it. It is
    told of none where a log-probability is not finite, nor of weights that autograd serves (watched,
    outside streamed layers, or narrower than float32 with a `grad_dtype` that is, too): these have
    their gradient at the end.

    Raises StreamErrors, and torch's own error where nothing requires gradient.
    """
    check_batch(input_ids_BT, target_ids_BT, layout)
    if weight_BT.shape != target_ids_BT.shape:
        shape = tuple(target_ids_BT.shape)
        raise TargetError("weight", tuple(weight_BT.shape), f"give {shape}, like targets")
    wanted = _of_targets(target_ids_BT)
    ledger = Ledger(settle)

    def forward() -> tuple[Tensor, Tensor]:
        with keeping(ledger):
            hidden_MD, scoring = _prepared(
                model, input_ids_BT, layout, wanted, head_chunk_tokens, temperature
            )
        weight_N = weight_BT.flatten().to(hidden_MD.device)[wanted.slots_N]
        scores: tuple[Tensor, Tensor] = LinearScores.apply(
            ledger, scoring, weight_N, hidden_MD, *scoring.head.parameters()
        )
        return scores

    zero, logp_N = as_forward(causal_lm(model), forward)
    ledger.withhold_shared(zero)
    if settle is None or bool(logp_N.isfinite().all()):
        zero.backward()
    return _table(logp_N, wanted.slots_N, input_ids_BT.shape)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Scores of targets_N under the hidden states at places_N, to be put into slots_N."""

    slots_N: Tensor
    places_N: Tensor
    targets_N: Tensor


def _of_targets(target_ids_BT: Tensor) -> _Wanted:
    slots_N = (target_ids_BT.flatten() != IGNORED).nonzero()[:, 0]
    return _Wanted(slots_N, slots_N, target_ids_BT.flatten()[slots_N])


def _scores(
    model: nn.Module, input_ids_BT: Tensor, layout: Layout, wanted: _Wanted, *,
    tile_tokens: int, temperature: float, entropy: bool,
) -> Scores:  # fmt: skip
    def forward() -> tuple[Tensor, Tensor]:
        hidden_MD, scoring = _prepared(
            model, input_ids_BT, layout, wanted, tile_tokens, temperature
        )
        scoring = replace(scoring, entropy=entropy)
        scores: tuple[Tensor, Tensor] = HeadScores.apply(
            scoring, hidden_MD, *scoring.head.parameters()
        )
        return scores

    logp_N, entropy_N = as_forward(causal_lm(model), forward)
    logp_BT = _table(logp_N, wanted.slots_N, input_ids_BT.shape)
    return (logp_BT, _table(entropy_N, wanted.slots_N, input_ids_BT.shape)) if entropy else logp_BT


def _prepared(
    model: nn.Module, input_ids_BT: Tensor, layout: Layout, wanted: _Wanted, tile_tokens: int,
    temperature: float,
) -> tuple[Tensor, Scoring]:  # fmt: skip
    """Run the decoder: hidden_MD, and what the head is to make of it."""
    attachment = attachment_of(model)
    head = attachment.head.at(temperature).awake
    at_least_one("head_chunk_tokens", tile_tokens)
    late = nullcontext() if head.norm is None else last_module_late()
    with late:
        hidden_MD = _hidden(attachment, input_ids_BT, layout).flatten(0, 1)
    places_N, targets_N = (x.to(hidden_MD.device) for x in (wanted.places_N, wanted.targets_N))
    return hidden_MD, Scoring(head, places_N, targets_N, tile_tokens)


def _table(x_N: Tensor, slots_N: Tensor, shape: torch.Size) -> Tensor:
    """Spread what was computed for scored tokens over all, 0 elsewhere."""
    slots_N = slots_N.to(x_N.device)
    return x_N.new_zeros(shape.numel()).index_copy(0, slots_N, x_N).view(shape)


def _hidden(attachment: Attachment, input_ids_BT: Tensor, layout: Layout) -> Tensor:
    """Hidden states of which the head makes logits, of shape (B, T, D)."""
    if attachment.mixing and not layout.is_plain:
        remedy = f"give one document a row: {attachment.mixing[0]} mixes documents"
        raise LayoutError("layout", "packed", remedy)
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

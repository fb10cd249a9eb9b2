"""Direct preference optimisation and its kin: the chosen answer is to be likelier than the other.

    r_s = beta (log π(y_s|x) - log π_ref(y_s|x))          reward of side s; without π_ref where there is none
    h   = r_chosen - r_rejected - target_margin           l(h) = -log sigmoid(h), ε = label_smoothing

    sigmoid   (1-ε) l(h) + ε l(-h)                        arXiv 2305.18290; ε: Mitchell, "A note on DPO with
                                                          noisy preferences"
    robust    ((1-ε) l(h) - ε l(-h)) / (1 - 2ε)           arXiv 2403.00409, unbiased if a share ε is flipped
    hinge     max(0, 1 - h)                               arXiv 2305.10425
    ipo       (h/beta - 1/(2 beta))²                      arXiv 2310.12036
    each      - nll_weight log π(y_chosen|x) / |y_chosen|                 arXiv 2404.19733

The loss is the mean over the pairs of the whole optimizer step. With length_normalised every log-probability
is divided by its answer's tokens first; with a target_margin and without π_ref: SimPO (arXiv 2405.14734).

Legend: P pairs, S their two sides: chosen, rejected.
"""

from typing import assert_never

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

from core.objectives.errors import AnswerError, BaselineError
from core.objectives.loss import Loss, share
from core.spec.objective import DpoSpec


def dpo(
    logp_PS: Tensor,
    tokens_PS: Tensor,
    spec: DpoSpec,
    *,
    normaliser: float,
    reference_PS: Tensor | None = None,
) -> Loss:
    """One pass's share of the loss; zero, with a zero gradient, where it has no pair.

    ``logp_PS``: log-probabilities of whole answers in nats, and ``tokens_PS`` their scored tokens, as
    ``answer_sums`` gives them for answers in the order chosen, rejected, chosen, ...: `.view(-1, 2)`.
    ``reference_PS``: the reference's, exactly where ``spec.reference`` is not ``none``; no gradient.
    ``normaliser``: pairs of the whole step.

    Sums over pairs: loss, rewards_chosen, rewards_rejected, margin (the rewards' difference), accuracy (a tie
    counts half), logp_chosen, logp_rejected, pairs. Raises ObjectiveErrors.
    """
    _check(logp_PS, tokens_PS, reference_PS, spec)
    length_PS = tokens_PS.clamp(min=1) if spec.length_normalised else 1
    gain_PS = (logp_PS if reference_PS is None else logp_PS - reference_PS.detach()) / length_PS
    reward_PS = spec.beta * gain_PS
    margin_P = reward_PS[:, 0] - reward_PS[:, 1]
    loss_P = _loss(margin_P, spec)
    if spec.nll_weight:
        loss_P = loss_P - spec.nll_weight * logp_PS[:, 0] / tokens_PS[:, 0].clamp(min=1)
    rewards_S, logp_S = reward_PS.sum(0), logp_PS.sum(0)
    return share(
        loss_P.sum(),
        normaliser=normaliser,
        loss=loss_P.sum(),
        rewards_chosen=rewards_S[0],
        rewards_rejected=rewards_S[1],
        margin=margin_P.sum(),
        accuracy=torch.heaviside(margin_P.detach(), margin_P.new_tensor(0.5)).sum(),
        logp_chosen=logp_S[0],
        logp_rejected=logp_S[1],
        pairs=torch.tensor(len(logp_PS), device=logp_PS.device),
    )


def _loss(margin_P: Tensor, spec: DpoSpec) -> Tensor:
    h_P, flipped = margin_P - spec.target_margin, spec.label_smoothing
    match spec.loss:
        case "sigmoid":
            return (1 - flipped) * softplus(-h_P) + flipped * softplus(h_P)
        case "robust":
            unbiased_P = (1 - flipped) * softplus(-h_P) - flipped * softplus(h_P)
            return unbiased_P / (1 - 2 * flipped)
        case "hinge":
            return relu(1 - h_P)
        case "ipo":
            return (h_P - 0.5).square() / spec.beta**2
        case _:
            assert_never(spec.loss)


def _check(logp_PS: Tensor, tokens_PS: Tensor, reference_PS: Tensor | None, spec: DpoSpec) -> None:
    for name, x_PS in (("logp", logp_PS), ("tokens", tokens_PS), ("reference", reference_PS)):
        if x_PS is not None and (x_PS.shape != logp_PS.shape or x_PS.shape[1:] != (2,)):
            raise AnswerError(name, tuple(x_PS.shape), "give (pairs, 2): chosen and rejected")
    if (reference_PS is None) != (spec.reference == "none"):
        given = "none" if reference_PS is None else tuple(reference_PS.shape)
        raise BaselineError("reference", given, f"the spec compares with: {spec.reference}")

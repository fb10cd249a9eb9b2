"""Group relative policy optimisation and its kin, on answers whose advantages are known.

    r_it = π(y_it) / π_old(y_it)          gspo: r_it = (π(y_i) / π_old(y_i))^(1/|y_i|), one ratio an answer
    l_it = -min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i) + kl_weight k3_it
    k3   = π_ref/π - log(π_ref/π) - 1     unbiased and never negative: Schulman, "Approximating KL divergence"

    grpo      Σ_i (1/|y_i|) Σ_t l_it / answers                          arXiv 2402.03300
    gspo      the same                                                  arXiv 2507.18071
    dapo      Σ_i Σ_t l_it / tokens                                     arXiv 2503.14476
    dr_grpo   Σ_i Σ_t l_it / (answers · max_completion_tokens)          arXiv 2503.20783

Answers and tokens are those of the whole optimizer step (``step_normaliser``), so that passes add up.
All tables are to be of one temperature, that of sampling.

Legend: B batch, T tokens, N scored tokens, A answers of the pass.
"""

from typing import assert_never

import torch
from torch import Tensor

from core.objectives.answers import Answers
from core.objectives.errors import AnswerError, BaselineError
from core.objectives.loss import Loss, share
from core.spec.objective import GrpoSpec

LARGEST_LOG_RATIO = 20.0
"""Beyond it exp goes on as its tangent, for a step must not be lost to infinity (huggingface/trl#3015)."""


def step_normaliser(spec: GrpoSpec, *, answers: int, tokens: int) -> float:
    """By what the sums of a whole step are divided that has so many answers and scored tokens."""
    match spec.loss:
        case "grpo" | "gspo":
            return answers
        case "dapo":
            return tokens
        case "dr_grpo":
            return answers * spec.max_completion_tokens
        case _:
            assert_never(spec.loss)


def grpo(
    logp_BT: Tensor,
    old_BT: Tensor,
    answer_BT: Tensor,
    advantage_A: Tensor,
    spec: GrpoSpec,
    *,
    normaliser: float,
    reference_BT: Tensor | None = None,
    entropy_BT: Tensor | None = None,
) -> Loss:
    """One pass's share of the loss; zero, with a zero gradient, where it has no scored token.

    ``logp_BT``: of tokens at their own places, in nats; ``old_BT``: the same when they were sampled (on
    policy `logp_BT.detach()`: ratios are exactly 1, the gradient flows). ``answer_BT``: to which of the
    pass's answers a token belongs, from 0; -1: to none, whatever the tables hold there. ``advantage_A``: of
    these answers. ``normaliser``: see `step_normaliser`. ``reference_BT``: the base model's, needed where
    the spec has a kl_weight. Only ``logp_BT`` gets a gradient.

    Sums over tokens: loss (by ``normaliser`` the step's loss), clipped (tokens whose ratio is clipped; in
    gspo all of the answer's), tokens; kl with a reference, entropy with an entropy. Raises ObjectiveErrors.
    """
    if spec.kl_weight and reference_BT is None:
        raise BaselineError("reference", None, f"kl_weight {spec.kl_weight} needs the base model's")
    if advantage_A.ndim != 1:
        raise AnswerError("advantage", tuple(advantage_A.shape), "give one number an answer")
    of = Answers.of(answer_BT.to(logp_BT.device), len(advantage_A))
    logp_N = of.pick(logp_BT)
    loss_N, clipped_N = _policy_loss(of, logp_N - of.pick(old_BT.detach()), advantage_A, spec)
    figures = {"clipped": clipped_N.sum(), "tokens": of.tokens().sum()}
    if reference_BT is not None:
        kl_N = _divergence(of.pick(reference_BT.detach()) - logp_N)
        loss_N = loss_N + spec.kl_weight * kl_N
        figures["kl"] = kl_N.sum()
    if entropy_BT is not None:
        figures["entropy"] = of.pick(entropy_BT).sum()
    if spec.loss in {"grpo", "gspo"}:
        loss_N = loss_N / of.tokens()[of.answer_N]
    total = loss_N.sum()
    return share(total, normaliser=normaliser, loss=total, **figures)


def _policy_loss(
    of: Answers, change_N: Tensor, advantage_A: Tensor, spec: GrpoSpec
) -> tuple[Tensor, Tensor]:
    """(loss_N, clipped_N) for the change of each log-probability since sampling."""
    if spec.loss == "gspo":
        change_N = of.means(change_N)[of.answer_N]
    ratio_N = _exp(change_N)
    advantage_N = advantage_A.detach().to(ratio_N)[of.answer_N]
    low, high = 1 - spec.clip_low, 1 + spec.clip_high
    # min(rA, clip(r)A) is not rA only where the ratio has already gone where A pushes it.
    clipped_N = torch.where(advantage_N < 0, ratio_N < low, ratio_N > high) & (advantage_N != 0)
    bounded_N = torch.where(clipped_N, ratio_N.detach().clamp(low, high), ratio_N)
    return -advantage_N * bounded_N, clipped_N


def _divergence(gap_N: Tensor) -> Tensor:
    """k3 of the gap log π_ref - log π: at least 0, and finite for any finite gap."""
    return _exp(gap_N) - gap_N - 1


def _exp(x_N: Tensor) -> Tensor:
    """Exponential up to LARGEST_LOG_RATIO, its tangent beyond: always finite, always rising."""
    near_N = x_N.clamp(max=LARGEST_LOG_RATIO)
    return near_N.exp() * (1 + (x_N - near_N))

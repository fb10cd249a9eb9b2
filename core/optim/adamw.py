"""AdamW for one parameter, and the two steps of it that APOLLO takes on its small side.

    m = b1 m + (1 - b1) G,   v = b2 v + (1 - b2) G^2,   G~ = m / (sqrt(v) + eps)
    W = (1 - lr wd) W - lr sqrt(1 - b2^t) / (1 - b1^t) G~

Kingma, Ba, arXiv 1412.6980, with the bias correction folded into the step size (the end of
section 2), so that eps is added to the uncorrected sqrt(v), as APOLLO's recorded runs have it;
Loshchilov, Hutter, arXiv 1711.05101, for the decoupled weight decay.
"""

import math

import torch
from torch import Tensor

from core.optim.descent import Rounder, descend


def adamw_update(  # noqa: PLR0913 - the rule's own terms, one a line
    weight: Tensor,  # any shape, any floating dtype; changed in place
    grad: Tensor,  # the same shape
    exp_avg: Tensor,  # the same shape, float32: m, changed in place
    exp_avg_sq: Tensor,  # the same shape, float32: v, changed in place
    *,
    step: int,  # t, from 1
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    bias_correction: bool = True,
    decay_after_update: bool = False,  # decay the updated weight instead of the old one
    rounder: Rounder | None = None,  # None: to nearest
) -> None:
    """One AdamW step of one parameter."""
    direction = adam_direction(grad.to(exp_avg.dtype), exp_avg, exp_avg_sq, betas=betas, eps=eps)
    descend(
        weight,
        direction,
        step_size=lr * (bias_factor(step, betas) if bias_correction else 1.0),
        decay=lr * weight_decay,
        decay_after_update=decay_after_update,
        rounder=rounder,
    )


def adam_direction(
    grad: Tensor,  # any shape, in the moments' dtype
    exp_avg: Tensor,  # the same shape: m, changed in place
    exp_avg_sq: Tensor,  # the same shape: v, changed in place
    *,
    betas: tuple[float, float],
    eps: float,
) -> Tensor:
    """Take `grad` into the moments; return m / (sqrt(v) + eps), new and not bias-corrected."""
    beta1, beta2 = betas
    exp_avg.lerp_(grad, 1.0 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
    root = exp_avg_sq.sqrt().add_(eps)
    return torch.div(exp_avg, root, out=root)


def bias_factor(step: int, betas: tuple[float, float]) -> float:
    """Return what the zero start of both moments asks of the step size at step t, from 1."""
    return math.sqrt(1.0 - betas[1] ** step) / (1.0 - betas[0] ** step)

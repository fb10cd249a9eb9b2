"""AdamW for one parameter, and the two steps of it that APOLLO takes on its small side.

    m = b1 m + (1 - b1) G,   v = b2 v + (1 - b2) G^2,   G~ = m / (sqrt(v) + eps)
    W = (1 - lr wd) W - lr sqrt(1 - b2^t) / (1 - b1^t) G~

Kingma, Ba, arXiv 1412.6980, with the bias correction folded into the step size (the end of
section 2), so that eps is added to the uncorrected sqrt(v), as APOLLO's recorded runs have it;
Loshchilov, Hutter, arXiv 1711.05101, for the decoupled weight decay.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from core.optim.int8 import Int8Weight
from core.optim.parts import parts

Rounder = Callable[[Tensor, int], Tensor]
"""Takes a value in full precision to what the weight holds: its dtype, or codes and scales.

The value is a part of the weight, with its first element at the given place.
"""


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
    exp_avg.mul_(beta1).add_(grad, alpha=1.0 - beta1)
    exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1.0 - beta2)
    return exp_avg / exp_avg_sq.sqrt().add_(eps)


def bias_factor(step: int, betas: tuple[float, float]) -> float:
    """Return what the zero start of both moments asks of the step size at step t, from 1."""
    return math.sqrt(1.0 - betas[1] ** step) / (1.0 - betas[0] ** step)


def descend(
    weight: Tensor,  # any shape, any floating dtype or int8; changed in place
    direction: Tensor,  # the same shape, at least float32
    *,
    step_size: float,
    decay: float,  # lr * weight decay
    decay_after_update: bool,
    rounder: Rounder | None,
) -> None:
    """W = (1 - decay) W - step_size * direction, in the direction's precision, rounded once.

    A weight that must be rounded is updated part by part.
    """

    def moved(value: Tensor, direction: Tensor) -> Tensor:
        if decay and not decay_after_update:
            value.mul_(1.0 - decay)
        value.add_(direction, alpha=-step_size)
        if decay and decay_after_update:
            value.mul_(1.0 - decay)
        return value

    if weight.dtype == direction.dtype and not isinstance(weight, Int8Weight):
        moved(weight, direction)
        return
    for index, first in parts(weight.shape, weight.device):
        part = weight.part(index) if isinstance(weight, Int8Weight) else weight[index]
        value = moved(_wide(part, direction.dtype), direction[index])
        part.copy_(value if rounder is None else rounder(value, first))
    # A part of an int8 weight has a version of its own.
    torch.autograd.graph.increment_version(weight)


def _wide(part: Tensor, dtype: torch.dtype) -> Tensor:
    return part.dequantised(dtype) if isinstance(part, Int8Weight) else part.to(dtype)

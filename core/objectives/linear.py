"""The weights of an objective that is linear in the log-probabilities.

Its gradient is then the same everywhere, so it can be known before the first of them is.

Legend: B batch, T tokens.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from core.objectives.loss import Loss


def linear_weight(objective: Callable[[Tensor], Loss], like_BT: Tensor) -> Tensor:
    """Give d value / d logp_BT, taken at zero; right at every point if `objective` is linear."""
    with torch.enable_grad():
        logp_BT = torch.zeros_like(like_BT).requires_grad_()
        return torch.autograd.grad(objective(logp_BT).value, logp_BT)[0]

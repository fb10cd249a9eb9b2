"""The norm-growth limiter: an update may grow by at most a factor from one step to the next.

    |U_t| <= gamma |U_{t-1}|, otherwise U_t is scaled down to that

Chen et al., *Fira*, arXiv 2410.01623, with gamma = 1.01, taken over by APOLLO (arXiv 2412.05270).
It stands in for global clipping, which needs every gradient at once, and is blind to a constant
factor on U: what scales all updates alike may stand before or after it.

Taken literally, one silent step (a zero gradient: an empty micro-batch, an expert without tokens,
LoRA's A while B = 0) would hold the parameter at nothing for hundreds of steps. So a step that is
silent against the one before leaves the memory alone, and with no memory there is no limit.
"""

import torch
from torch import Tensor

_SILENT = 1e-8  # a norm that is nothing, as in the paper's denominators
_SILENT_SHARE = 0.1  # a norm that is little beside the last one: 231 steps of 1 % to grow back


def limit_growth(
    norm: Tensor,  # (..., 1, 1): of each matrix's update
    last_norm: Tensor,  # (..., 1, 1): the last norm not silent, 0 for none; changed in place
    growth_limit: float,  # gamma
) -> Tensor:
    """Give the factor, at most 1, that keeps each norm within `growth_limit` times the last."""
    shrink = torch.where(last_norm > 0, growth_limit * last_norm / norm, 1.0).clamp_(max=1.0)
    # 0 / 0 cannot arise: where the memory is 0 the limit is off, elsewhere x / 0 is above 1.
    silent = norm <= (last_norm * _SILENT_SHARE).clamp_(min=_SILENT)
    last_norm.copy_(torch.where(silent, last_norm, norm * shrink))
    return shrink

"""The norm of a whole gradient, wherever its parts are."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from core.ranks import portion_of


def gradient_norm(params: Iterable[Tensor]) -> float:
    """The 2-norm of all gradients together; of weights spread over ranks all must ask, and get the same."""
    portions = [(portion_of(param), param.grad) for param in params if param.grad is not None]
    here = [portion.of(grad) for portion, grad in portions if portion.mesh is None]
    cut = [portion.of(grad) for portion, grad in portions if portion.mesh is not None]
    norms = [_norm(here)] if here else []
    if cut:
        rows = next(portion for portion, _ in portions if portion.mesh is not None)
        norms.append(rows.norm(_norm(cut).double()))
    return math.hypot(*map(float, norms))


def _norm(gradients: list[Tensor]) -> Tensor:
    norms = torch._foreach_norm(gradients)  # noqa: SLF001 - what torch's own clipping calls
    return torch.linalg.vector_norm(torch.stack(norms))

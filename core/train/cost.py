"""What an optimizer holds and needs, in bytes, for the memory plan: from shapes alone."""

from typing import Any, assert_never

import torch
from torch import nn

from core.optim.parts import part_elements
from core.spec.optimizer import (
    AdamWSpec,
    ApolloMiniSpec,
    ApolloSpec,
    OptimizerSpec,
    ScaleSpec,
    SgdSpec,
)
from core.streambp.plan import StepCost
from core.train.optimizer import named_optimizer

_ROUNDING_COPIES = 8  # of a part: the wide weight, random words, and what is made of them
_SVD_COPIES = 4  # the gradient, both sides' vectors, and what LAPACK works in
_SINGLE = torch.float32.itemsize


def step_cost(model: nn.Module, chosen: OptimizerSpec, *, foreach: bool) -> StepCost:
    """The cost of ``chosen`` on ``model``, which may lie on the meta device.

    ``foreach``: whether torch's own optimizers step all weights at once, as they do on a GPU.
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    held = sum(p.numel() * p.element_size() for p in weights)
    at_once = held if foreach else max(p.numel() * p.element_size() for p in weights)
    match chosen:
        case AdamWSpec():
            return StepCost(2 * held, at_once)  # two moments, and a root of the second
        case SgdSpec():
            return StepCost(held if chosen.momentum else 0, at_once if chosen.weight_decay else 0)
        case ApolloSpec() | ApolloMiniSpec() | ScaleSpec():
            return _named(model, chosen, "cuda" if foreach else "cpu")
        case unknown:
            assert_never(unknown)


def _named(
    model: nn.Module, chosen: ApolloSpec | ApolloMiniSpec | ScaleSpec, device_type: str
) -> StepCost:
    optimizer = named_optimizer(chosen, model, rate=0.0, seed=0)
    pairs = [
        (parameter, optimizer.fresh_state(parameter, group))
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    held = sum(x.numel() * x.element_size() for _, state in pairs for x in _tensors(state))
    largest = max(parameter.numel() for parameter, _ in pairs)
    narrow = any(parameter.element_size() < _SINGLE for parameter, _ in pairs)
    # A projected gradient, and what rounding takes.
    low = (x.numel() for p, state in pairs for x in _tensors(state) if x.shape != p.shape)
    inner = max(low, default=0) * _SINGLE
    if narrow:
        inner += _ROUNDING_COPIES * min(largest, part_elements(device_type)) * _SINGLE
    if not isinstance(chosen, ScaleSpec) and chosen.projection == "svd":
        inner += _SVD_COPIES * largest * _SINGLE
    # AdamW's m / sqrt(v); SCALE has none, but for vectors.
    full = not isinstance(chosen, ScaleSpec) and chosen.embeddings == "adamw"
    outer = inner + (largest * _SINGLE if full else 0)
    return StepCost(held, outer + (largest * _SINGLE if narrow else 0), outer, inner)


def _tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    return [x for x in state.values() if isinstance(x, torch.Tensor)]

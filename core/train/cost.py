"""What an optimizer holds and needs, in bytes, for the memory plan: from shapes alone."""

from typing import assert_never

import torch
from torch import nn

from core.optim.norms import PIECE_ELEMENTS
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

_ADAM_COPIES = 1  # m / sqrt(v) of an embedding; a projected gradient is smaller
_ROUNDING_COPIES = 7  # of a piece: the wide weight, random words, and what is made of them
_SVD_COPIES = 4  # the gradient, both sides' vectors, and what LAPACK works in


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
            return _named(model, chosen)
        case unknown:
            assert_never(unknown)


def _named(model: nn.Module, chosen: ApolloSpec | ApolloMiniSpec | ScaleSpec) -> StepCost:
    optimizer = named_optimizer(chosen, model, rate=0.0, seed=0)
    states = [
        optimizer.fresh_state(parameter, group)
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    tensors = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
    largest = max((p for p in model.parameters() if p.requires_grad), key=torch.Tensor.numel)
    copies = _ADAM_COPIES * largest.numel()
    if largest.dtype != torch.float32:
        copies += largest.numel() + _ROUNDING_COPIES * min(largest.numel(), PIECE_ELEMENTS)
    if isinstance(chosen, ApolloSpec | ApolloMiniSpec) and chosen.projection == "svd":
        copies += _SVD_COPIES * largest.numel()
    held = sum(x.numel() * x.element_size() for x in tensors)
    return StepCost(held, copies * torch.float32.itemsize)

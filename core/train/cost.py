"""What an optimizer holds and needs, in bytes, for the memory plan: from shapes alone."""

from typing import assert_never

import torch
from torch import nn

from core.optim import parameter_groups
from core.optim.state import fresh_state
from core.spec.optimizer import AdamWSpec, ApolloMiniSpec, ApolloSpec, OptimizerSpec, SgdSpec
from core.streambp.plan import StepCost

_UPDATE = 1  # a copy of the largest weight, in float32
_ROUNDED = 8  # the same, and what rounding a narrow weight at random takes besides


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
        case ApolloSpec():
            return _apollo(model, chosen, chosen.rank)
        case ApolloMiniSpec():
            return _apollo(model, chosen, 1)
        case unknown:
            assert_never(unknown)


def _apollo(model: nn.Module, chosen: ApolloSpec | ApolloMiniSpec, rank: int) -> StepCost:
    groups = parameter_groups(model, embeddings=chosen.embeddings)
    states = [
        fresh_state(parameter, group.get("rank", rank))
        for group in groups
        for _, parameter in group["params"]
    ]
    tensors = [x for state in states for x in state.values() if isinstance(x, torch.Tensor)]
    largest = max(model.parameters(), key=lambda p: p.numel())
    copies = _UPDATE if largest.element_size() >= torch.float32.itemsize else _ROUNDED
    return StepCost(
        sum(x.numel() * x.element_size() for x in tensors),
        copies * largest.numel() * torch.float32.itemsize,
        copies,
    )

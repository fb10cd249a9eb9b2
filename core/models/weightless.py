"""Adapters of experts on the meta device, where the memory plan runs a model that has shapes and no bytes.

peft switches autocast off around its sum W + (alpha / rank) B A, and there is no autocast on meta.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from peft.tuners.lora.layer import ParamWrapper
from torch import Tensor, nn
from torch.nn.utils import parametrize


class _Sum(nn.Module):
    """The sum as peft makes it, in one operation."""

    def __init__(self, left: Tensor, right: Tensor, scaling: float) -> None:
        super().__init__()
        self.left, self.right, self.scaling = left, right, scaling

    def forward(self, weight: Tensor) -> Tensor:
        return torch.baddbmm(weight, self.left, self.right, alpha=self.scaling)


def let_experts_run(model: nn.Module) -> None:
    """Let the adapted experts of a ``model`` on meta be run as peft runs them elsewhere."""
    for module in model.modules():
        if isinstance(module, ParamWrapper):
            module.__dict__["_activate_lora"] = partial(_activated, module)


@contextmanager
def _activated(wrapper: ParamWrapper, adapters: list[str]) -> Iterator[None]:
    experts: Any = wrapper.get_base_layer()
    name = wrapper.parameter_name
    parametrize.register_parametrization(
        experts, name, _Sum(*wrapper.get_delta_factors(adapters[0]))
    )
    experts.parametrizations[name].original.requires_grad_(requires_grad=False)
    try:
        with parametrize.cached():
            yield
    finally:
        parametrize.remove_parametrizations(experts, name, leave_parametrized=False)

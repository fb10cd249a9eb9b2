"""An optimizer's state as one process would have it, whoever holds its parts.

So a checkpoint says nothing of how many ranks wrote it: any number goes on from it, one included.
"""

from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

from core.optim import NamedOptimizer
from core.ranks import whole


def whole_state(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Its state with whole tensors; of weights spread over ranks all must ask."""
    found = optimizer.state_dict()
    if isinstance(optimizer, NamedOptimizer):
        return found
    states = {
        number: {field: _gathered(value) for field, value in state.items()}
        for number, state in found["state"].items()
    }
    return found | {"state": states}


def load_whole_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take over what `whole_state` gave, each rank its own part."""
    if isinstance(optimizer, NamedOptimizer):
        optimizer.load_state_dict(state)
        return
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = {
        number: {field: _like(value, params[number]) for field, value in one.items()}
        for number, one in state["state"].items()
    }
    optimizer.load_state_dict(state | {"state": states})


def _gathered(value: Any) -> Any:
    return whole(value) if isinstance(value, Tensor) else value


def _like(value: Any, param: Tensor) -> Any:
    """A tensor of the parameter's shape, spread as the parameter is; anything else as it is."""
    if not (isinstance(param, DTensor) and isinstance(value, Tensor)):
        return value
    if value.shape != param.shape:
        return value
    value = value.to(param.device)
    return distribute_tensor(value, param.device_mesh, param.placements, src_data_rank=None)

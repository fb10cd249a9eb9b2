"""Spread a streamed model over ranks: torch's `fully_shard` (fsdp) or `replicate` (ddp) around each layer.

A streamed layer is one node of the graph however many chunks it walks, so its weights are gathered once
forward and once backward, and its gradients reduced once: the communication-efficient form of arXiv
2506.03077 by construction. What no layer holds (embedding, last norm, head) is gathered around the whole.
Gradients are summed, not averaged: objectives are normalised by counts over the whole step.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeVar

import torch
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from core.ranks.crew import Crew

T = TypeVar("T")
Strategy = Literal["ddp", "fsdp"]

_AS_FORWARD = "run_as_forward"


def spread(
    model: nn.Module, layers: list[nn.Module], strategy: Strategy, crew: Crew, device: torch.device
) -> None:
    """Spread ``model`` with these decoder ``layers`` over the ranks, in place; each rank must call it.

    Reductions are made in float32 at least. Nothing is done for a crew of one.
    """
    if crew.size == 1:
        return
    mesh = init_device_mesh(device.type, (crew.size,))
    policy = MixedPrecisionPolicy(reduce_dtype=_reducing_dtype(model))
    put = fully_shard if strategy == "fsdp" else replicate
    for part in (*layers, model):
        put(part, mesh=mesh, mp_policy=policy)
    for spread_part in _spread(model):
        # An expert may get tokens of one rank alone; the others then reduce zeros.
        spread_part.set_reduce_scatter_unused_params(True)
        spread_part.set_gradient_divide_factor(1.0)
        spread_part.set_force_sum_reduction_for_comms(True)
    setattr(model, _AS_FORWARD, lambda run: run())
    register_fsdp_forward_method(model, _AS_FORWARD)


def as_forward(model: nn.Module, run: Callable[[], T]) -> T:
    """Run what uses weights of ``model`` outside its layers; for a model that is spread, as its forward.

    So these are gathered for it, and their gradients are reduced when what it gives is differentiated.
    """
    forward = model.__dict__.get(_AS_FORWARD)
    result: T = run() if forward is None else forward(run)
    return result


def syncing(model: nn.Module, *, last: bool) -> None:
    """Say whether the pass that is next is the ``last`` of its step.

    Replicas reduce in the last one only. Shards reduce in each, for the sum of unreduced gradients would be
    as large as the whole model's.
    """
    if isinstance(model, FSDPModule) and _replicates(model):
        model.set_requires_gradient_sync(last)


def let_go(model: nn.Module) -> None:
    """Free what a forward pass without a backward pass has left gathered.

    The model's parameters are again those that an optimizer steps.
    """
    for part in _spread(model):
        part.reshard()


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """All weights whole, on every rank, while the block runs: for sampling, whose ranks step unevenly."""
    parts = [part for part in _spread(model) if not _replicates(part)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(id(part) != id(model), recurse=False)
        let_go(model)


@contextmanager
def as_stock(model: nn.Module) -> Iterator[None]:
    """While the block runs the model's class is its own again, for what writes down its name."""
    spread_class = type(model)
    if isinstance(model, FSDPModule):
        kinds = spread_class.__mro__[1:]
        model.__class__ = next(kind for kind in kinds if not issubclass(kind, FSDPModule))  # type: ignore[assignment]
    try:
        yield
    finally:
        model.__class__ = spread_class


def _spread(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _replicates(module: FSDPModule) -> bool:
    return type(module).__name__.startswith("Replicate")


def _reducing_dtype(model: nn.Module) -> torch.dtype | None:
    narrow = any(param.dtype.itemsize < torch.float32.itemsize for param in model.parameters())
    return torch.float32 if narrow else None

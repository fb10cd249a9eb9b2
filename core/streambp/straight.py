"""Gradients that go straight to `.grad`, in the one backward pass that is ours from end to end.

Autograd lets a gradient grow in a buffer of its own, then adds that to `.grad`. A caller of
`backward_linear` has asked for nothing but that addition, so a weight that nobody watches is its own
buffer: neither a second head, nor a second embedding, nor the sums of a layer exist beside it.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeGuard

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from core.streambp.dtypes import summing_dtype
from core.streambp.inforce import in_force

# Per thread, and noted by every node in its forward pass: the backward pass may have threads of its own.
_straight: ContextVar[bool] = ContextVar("streambp_straight", default=False)


def gradients_go_straight() -> AbstractContextManager[None]:
    """While the block runs, nodes made in this thread may add to `.grad` in their backward pass."""
    return in_force(_straight, value=True)


def straight_now() -> bool:
    """Say whether a node that is made now may add to `.grad` itself."""
    return _straight.get()


def unwatched(param: Tensor) -> bool:
    """Say whether a gradient may go past autograd: no hook, no other process waits for it."""
    watched = param._backward_hooks or param._post_accumulate_grad_hooks  # noqa: SLF001
    alone = not (distributed.is_available() and distributed.is_initialized())
    ordinary = type(param) is nn.Parameter and param.is_leaf
    return ordinary and alone and not watched and summing_dtype(param.dtype) == param.dtype


def own_grad(param: Tensor) -> Tensor:
    """Give `.grad` to add to; zeros where there was none."""
    if param.grad is None:
        param.grad = torch.zeros_like(param)
    return param.grad


class StraightEmbedding:
    """Stands in for the forward of an embedding; `forward` is the module's own."""

    def __init__(self, module: nn.Embedding) -> None:
        self.module, self.forward = module, module.forward

    def __call__(self, ids_BT: Tensor) -> Tensor:
        """Look rows up."""
        weight_VD = self.module.weight
        if straight_now() and weight_VD.requires_grad and unwatched(weight_VD):
            rows: Tensor = Rows.apply(weight_VD, ids_BT, self.module.padding_idx)
            return rows
        return self.forward(ids_BT)


def is_plain(module: nn.Module | None) -> TypeGuard[nn.Embedding]:
    """Say whether the module looks rows up and does nothing else."""
    return (
        type(module) is nn.Embedding
        and "forward" not in module.__dict__
        and module.max_norm is None
        and not module.scale_grad_by_freq
        and not module.sparse
    )


class Rows(torch.autograd.Function):
    """Rows of a table. The gradient of each is added to the table's `.grad` in a fixed order."""

    @staticmethod
    def forward(ctx: Any, weight_VD: Tensor, ids_BT: Tensor, padding: int | None) -> Tensor:
        """Look rows up."""
        ctx.weight, ctx.padding = weight_VD, padding
        ctx.save_for_backward(ids_BT)
        return functional.embedding(ids_BT, weight_VD)

    @staticmethod
    def backward(ctx: Any, grad_BTD: Tensor) -> tuple[None, None, None]:
        """Add; a padding row learns nothing."""
        (ids_BT,) = ctx.saved_tensors
        ids_M, grad_MD = ids_BT.flatten(), grad_BTD.flatten(0, 1)
        if ctx.padding is not None:
            real_M = ids_M != ctx.padding
            ids_M, grad_MD = ids_M[real_M], grad_MD[real_M]
        own_grad(ctx.weight).index_put_((ids_M,), grad_MD.to(ctx.weight.dtype), accumulate=True)
        return None, None, None

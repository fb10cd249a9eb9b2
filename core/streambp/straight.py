"""Gradients that go straight to `.grad`, in the one backward pass that is ours from end to end.

Autograd lets a gradient grow in a buffer of its own, then adds that to `.grad`. A caller of
`backward_linear` has asked for nothing but that addition, so a weight that nobody watches is its own
buffer: neither a second head, nor a second embedding, nor the sums of a layer exist beside it.
"""

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.streambp.dtypes import summing_dtype
from core.streambp.inforce import in_force
from core.streambp.source import is_whole, note_lookup

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
    return is_whole(param) and not watched and summing_dtype(param.dtype) == param.dtype


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
            rows = Rows.apply(weight_VD, ids_BT, self.module.padding_idx)
        else:
            rows = self.forward(ids_BT)
        return note_lookup(rows, ids_BT, weight_VD)


class StraightLinear:
    """Stands in for the forward of a linear map; `forward` is the module's own."""

    def __init__(self, module: nn.Linear) -> None:
        self.module, self.forward = module, module.forward

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        params = list(self.module.parameters())
        if (
            straight_now()
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled(x.device.type)
            and all(unwatched(p) and p.dtype == x.dtype for p in params)
        ):
            product: Tensor = Product.apply(x, *params)
            return product
        return self.forward(x)


class Product(torch.autograd.Function):
    """x W^T + b. The gradients of W and b are added to their `.grad`, without a buffer between."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight_ED: Tensor, *bias_E: Tensor) -> Tensor:
        """Multiply."""
        ctx.save_for_backward(x, weight_ED, *bias_E)
        return functional.linear(x, weight_ED, *bias_E)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Add, and give the gradient of x."""
        x, weight_ED, *bias_E = ctx.saved_tensors
        deeper, *wanted = ctx.needs_input_grad
        grad_NE = grad.reshape(-1, grad.shape[-1])
        if wanted[0]:
            own_grad(weight_ED).addmm_(grad_NE.T, x.reshape(-1, x.shape[-1]))
        for bias, want in zip(bias_E, wanted[1:], strict=True):
            if want:
                own_grad(bias).add_(grad_NE.sum(0))
        return grad @ weight_ED if deeper else None, *[None for _ in wanted]


def is_plain_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Say whether the module multiplies and does nothing else."""
    return type(module) is nn.Linear and "forward" not in module.__dict__


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

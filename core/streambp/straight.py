"""Linear maps and tables whose gradients go straight to `.grad`, by the ledger in force."""

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.streambp.ledger import Ledger, add_product, ledger_now, own_grad
from core.streambp.source import note_lookup


class StraightEmbedding:
    """Stands in for the forward of an embedding; `forward` is the module's own."""

    def __init__(self, module: nn.Embedding) -> None:
        self.module, self.forward = module, module.forward

    def __call__(self, ids_BT: Tensor) -> Tensor:
        """Look rows up."""
        weight_VD, ledger = self.module.weight, ledger_now()
        if ledger is not None and ledger.enter([weight_VD]):
            rows = Rows.apply(ledger, weight_VD, ids_BT, self.module.padding_idx)
        else:
            rows = self.forward(ids_BT)
        return note_lookup(rows, ids_BT, weight_VD)


class StraightLinear:
    """Stands in for the forward of a linear map; `forward` is the module's own."""

    def __init__(self, module: nn.Linear) -> None:
        self.module, self.forward = module, module.forward

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        params, ledger = list(self.module.parameters()), ledger_now()
        if (
            ledger is not None
            and torch.is_grad_enabled()
            and not torch.is_autocast_enabled(x.device.type)
            and all(p.dtype == x.dtype and _straight(ledger, p) for p in params)
        ):
            product: Tensor = Product.apply(x, *params)
            return product
        return self.forward(x)


def _straight(ledger: Ledger, param: Tensor) -> bool:
    return ledger.takes(param) or not param.requires_grad


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
            add_product(own_grad(weight_ED), grad_NE, x.reshape(-1, x.shape[-1]))
        for bias, want in zip(bias_E, wanted[1:], strict=True):
            if want:
                own_grad(bias).add_(grad_NE.sum(0))
        return grad @ weight_ED if deeper else None, *[None for _ in wanted]


def is_plain_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Say whether the module multiplies and does nothing else."""
    return type(module) is nn.Linear and "forward" not in module.__dict__


def is_plain_embedding(module: nn.Module | None) -> TypeGuard[nn.Embedding]:
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
    def forward(
        ctx: Any, ledger: Ledger, weight_VD: Tensor, ids_BT: Tensor, padding: int | None
    ) -> Tensor:
        """Look rows up."""
        ctx.ledger, ctx.weight, ctx.padding = ledger, weight_VD, padding
        ctx.save_for_backward(ids_BT)
        return functional.embedding(ids_BT, weight_VD)

    @staticmethod
    def backward(ctx: Any, grad_BTD: Tensor) -> tuple[None, None, None, None]:
        """Add; a padding row learns nothing."""
        (ids_BT,) = ctx.saved_tensors
        ids_M, grad_MD = ids_BT.flatten(), grad_BTD.flatten(0, 1)
        if ctx.padding is not None:
            real_M = ids_M != ctx.padding
            ids_M, grad_MD = ids_M[real_M], grad_MD[real_M]
        sum_VD = own_grad(ctx.weight)
        sum_VD.index_put_((ids_M,), grad_MD.to(sum_VD.dtype), accumulate=True)
        ctx.ledger.sent([ctx.weight])
        return None, None, None, None

"""The output module on one tile of tokens: its answer, and the gradient sent back through it.

A plain `nn.Linear` is differentiated by hand, because autograd would make a new V x D matrix for
every tile: here one matrix gathers them all, and where the caller allows it that matrix is the
weight's own `.grad`. Any other output (an adapter, a hook, a sharded weight) goes through autograd.

    dh_CD = do_CV W_VD,     dW_VD = sum over tiles of do_CV^T h_CD,     db_V = sum of do_CV

Legend: C tokens of a tile, D width, V vocabulary.
"""

from typing import Protocol, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.streambp.atwork import is_ordinary
from core.streambp.dtypes import as_autocast, summing_dtype
from core.streambp.late import is_hooked
from core.streambp.ledger import Ledger, add_product, own_grad
from core.streambp.straight import is_plain_linear
from core.streambp.tile import Tile


class Projection(Protocol):
    """One walk over tiles: `out` then, before the next `out`, perhaps `send_back`."""

    def out(self, hidden_CD: Tensor) -> Tensor:
        """Give the answer of the output module, out_CV, in a buffer that the caller may overwrite.

        The dtype is at least float32.
        """
        ...

    def send_back(self, dout_CV: Tensor) -> Tensor | None:
        """Add the tile's share of the parameters' gradients; give dh_CD where it is wanted."""
        ...

    def totals(self) -> list[Tensor | None]:
        """Give the gradient of each parameter in its dtype, None where it is not wanted."""
        ...


def projection(
    output: nn.Module, params: list[Tensor], needs: list[bool], ledger: Ledger | None = None
) -> Projection:
    """Choose by the module; `needs` says what gradient is wanted: of hidden_CD, of each param.

    The gradient of a weight that the ledger takes is added to its `.grad` as it is made; `totals`
    then has None for it.
    """
    if is_plain(output):
        return PlainProjection(
            params, needs, straight=ledger is not None and ledger.takes(params[0])
        )
    return GraphProjection(output, params, needs)


def straight_params(output: nn.Module) -> list[Tensor]:
    """Give the parameters whose gradients may go straight."""
    return [output.weight] if is_plain(output) else []


def is_plain(output: nn.Module) -> TypeGuard[nn.Linear]:
    """Say whether the module is a linear map and nothing else."""
    return (
        is_plain_linear(output)
        and all(is_ordinary(p) for p in output.parameters())
        and not is_hooked(output)
    )


class PlainProjection:
    """A linear map; `params` are its weight_VD and, where it has one, its bias_V."""

    def __init__(self, params: list[Tensor], needs: list[bool], *, straight: bool = False) -> None:
        self._params, self._needs, self._straight = params, needs, straight
        # Cast once for all tiles.
        self._weight, *self._bias = (as_autocast(p.detach()) for p in params)
        self._sums: list[Tensor | None] = [None] * len(params)
        if straight and needs[1]:
            self._sums[0] = own_grad(params[0])
        self._hidden = self._weight

    def out(self, hidden_CD: Tensor) -> Tensor:
        """As Projection.out."""
        self._hidden = as_autocast(hidden_CD)
        out_CV = functional.linear(self._hidden, self._weight, *self._bias)
        return out_CV.to(summing_dtype(out_CV.dtype))

    def send_back(self, dout_CV: Tensor) -> Tensor | None:
        """As Projection.send_back."""
        deeper, *wanted = self._needs
        narrow_CV = dout_CV.to(self._weight.dtype)
        with torch.autocast(dout_CV.device.type, enabled=False):  # casts were made above
            if wanted[0]:
                sum_VD = self._sums[0]
                if sum_VD is None:
                    sum_VD = torch.zeros_like(self._weight, dtype=summing_dtype(narrow_CV.dtype))
                self._sums[0] = sum_VD
                add_product(sum_VD, narrow_CV, self._hidden)
            if wanted[-1] and self._bias:
                share_V = dout_CV.sum(0)
                self._sums[1] = share_V if self._sums[1] is None else self._sums[1].add_(share_V)
            return narrow_CV @ self._weight if deeper else None

    def totals(self) -> list[Tensor | None]:
        """As Projection.totals."""
        if self._straight:
            self._sums[0] = None
        pairs = zip(self._sums, self._params, strict=True)
        return [None if total is None else total.to(p.dtype) for total, p in pairs]


class GraphProjection:
    """Any module, by autograd over one tile."""

    def __init__(self, output: nn.Module, params: list[Tensor], needs: list[bool]) -> None:
        self._tile = Tile(output, params, needs)

    def out(self, hidden_CD: Tensor) -> Tensor:
        """As Projection.out."""
        out_CV = self._tile.out(hidden_CD)
        # The graph may need its own answer.
        return out_CV.to(summing_dtype(out_CV.dtype), copy=self._tile.differentiable)

    def send_back(self, dout_CV: Tensor) -> Tensor | None:
        """As Projection.send_back."""
        return self._tile.send_back(dout_CV)

    def totals(self) -> list[Tensor | None]:
        """As Projection.totals."""
        return self._tile.totals()

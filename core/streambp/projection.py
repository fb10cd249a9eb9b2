"""The output module on one tile of tokens: its answer, and the gradient sent back through it.

A plain `nn.Linear` is differentiated by hand, because autograd would make a new V x D matrix for
every tile: here one matrix gathers them all. Any other output (an adapter, a hook, a sharded
weight) goes through autograd.

    dh_CD = do_CV W_VD,     dW_VD = sum over tiles of do_CV^T h_CD,     db_V = sum of do_CV

Legend: C tokens of a tile, D width, V vocabulary.
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from core.streambp.inner import GradientSums, shares_of
from core.streambp.keys import as_autocast, summing_dtype

_BLOCK = 4096  # words of the vocabulary whose gradient is widened at once


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


def projection(output: nn.Module, params: list[Tensor], needs: list[bool]) -> Projection:
    """Choose by the module; `needs` says what gradient is wanted: of hidden_CD, of each param."""
    if is_plain(output):
        return PlainProjection(params, needs)
    return GraphProjection(output, params, needs)


def is_plain(output: nn.Module) -> bool:
    """Say whether the module is a linear map and nothing else."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return (
        type(output) is nn.Linear
        and "forward" not in output.__dict__
        and all(type(p) is nn.Parameter for p in output.parameters())
        and not any(getattr(output, name) for name in hooks)
    )


class PlainProjection:
    """A linear map; `params` are its weight_VD and, where it has one, its bias_V."""

    def __init__(self, params: list[Tensor], needs: list[bool]) -> None:
        self._params, self._needs = params, needs
        # Cast once for all tiles.
        self._weight, *self._bias = (as_autocast(p.detach()) for p in params)
        self._sums: list[Tensor | None] = [None] * len(params)
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
                self._sums[0] = _add_product(self._sums[0], narrow_CV, self._hidden)
            if wanted[-1] and self._bias:
                share_V = dout_CV.sum(0)
                self._sums[1] = share_V if self._sums[1] is None else self._sums[1].add_(share_V)
            return narrow_CV @ self._weight if deeper else None

    def totals(self) -> list[Tensor | None]:
        """As Projection.totals."""
        pairs = zip(self._sums, self._params, strict=True)
        return [None if total is None else total.to(p.dtype) for total, p in pairs]


def _add_product(sum_VD: Tensor | None, dout_CV: Tensor, hidden_CD: Tensor) -> Tensor:
    """Add dout^T hidden to the sum, in place and, for narrow factors, in float32."""
    dtype = summing_dtype(dout_CV.dtype)
    if dtype == dout_CV.dtype:
        if sum_VD is None:
            return dout_CV.T @ hidden_CD
        return sum_VD.addmm_(dout_CV.T, hidden_CD)
    if sum_VD is None:
        sum_VD = hidden_CD.new_zeros(dout_CV.shape[1], hidden_CD.shape[1], dtype=dtype)
    for start in range(0, len(sum_VD), _BLOCK):
        block = slice(start, start + _BLOCK)
        sum_VD[block] += dout_CV[:, block].T @ hidden_CD
    return sum_VD


class GraphProjection:
    """Any module, by autograd over one tile."""

    def __init__(self, output: nn.Module, params: list[Tensor], needs: list[bool]) -> None:
        self._output, (self._deeper, *self._wanted) = output, needs
        self._sums = GradientSums([p for p, need in zip(params, self._wanted, strict=True) if need])
        self._graph: tuple[Tensor, Tensor] | None = None

    def out(self, hidden_CD: Tensor) -> Tensor:
        """As Projection.out."""
        differentiable = self._deeper or any(self._wanted)
        with torch.set_grad_enabled(differentiable):
            hidden_CD = hidden_CD.detach().requires_grad_(self._deeper)
            out_CV = self._output(hidden_CD)
        self._graph = (hidden_CD, out_CV) if differentiable else None
        dtype = summing_dtype(out_CV.dtype)
        return out_CV.detach().to(dtype, copy=differentiable)  # the graph may need its own answer

    def send_back(self, dout_CV: Tensor) -> Tensor | None:
        """As Projection.send_back."""
        assert self._graph is not None, "out was not asked for, or nothing needs gradient"
        hidden_CD, out_CV = self._graph
        self._graph = None
        inputs = [*([hidden_CD] if self._deeper else []), *self._sums.params]
        shares = shares_of([out_CV], inputs, [dout_CV.to(out_CV.dtype)])
        share_CD = shares.pop(0) if self._deeper else None
        self._sums.add(shares)
        return share_CD

    def totals(self) -> list[Tensor | None]:
        """As Projection.totals."""
        totals = iter(self._sums.totals())
        return [next(totals) if need else None for need in self._wanted]

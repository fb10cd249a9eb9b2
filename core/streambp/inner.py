"""The derivative of one chunk, taken inside the backward pass of the whole, and sums of such.

Hooks that a user has put on a parameter belong to the whole gradient: they must see it once, not
once per chunk. `torch.autograd.grad` would run them on every share, so they sleep meanwhile. In
their place a hook of ours adds each parameter's share to its sum as soon as autograd has made it,
and puts a tensor without bytes in its place: a chunk never holds the shares of a whole layer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from core.streambp.dtypes import summing_dtype
from core.streambp.ledger import Ledger, own_grad


class GradientSums:
    """Sums of parameter gradients over chunks, in float32 where the parameters are narrower.

    The sum of a parameter that the ledger takes is its `.grad`.
    """

    def __init__(self, params: list[Tensor], ledger: Ledger | None = None) -> None:
        self.params = params
        self._straight = [ledger is not None and ledger.takes(p) for p in params]
        self._sums: list[Tensor | None] = [None] * len(params)

    def shares_of(
        self, outs: Sequence[Tensor], inputs: Sequence[Tensor], grads: Sequence[Tensor]
    ) -> list[Tensor | None]:
        """Add one chunk's gradients to the sums; give those of `inputs`, None for an unused one."""
        with _hooks_asleep([*inputs, *self.params]), ExitStack() as awake:
            for index, param in enumerate(self.params):
                hook = param.register_hook(self._adding(index))
                awake.callback(hook.remove)
            wanted = [*inputs, *self.params]
            shares = torch.autograd.grad(outs, wanted, grads, allow_unused=True)
        return list(shares[: len(inputs)])

    def totals(self) -> list[Tensor | None]:
        """Give the sums in the dtypes of the parameters; None where unused, or gone straight."""
        triples = zip(self._sums, self.params, self._straight, strict=True)
        return [None if x is None or gone else x.to(p.dtype) for x, p, gone in triples]

    def _adding(self, index: int) -> Callable[[Tensor | None], Tensor | None]:
        def add(share: Tensor | None) -> Tensor | None:
            if share is None:  # it has gone straight already
                return None
            if self._straight[index]:
                self._sums[index] = own_grad(self.params[index])
            total = self._sums[index]
            if total is None:
                # A copy, for autograd may give one tensor to two parameters.
                self._sums[index] = share.to(summing_dtype(share.dtype), copy=True)
            else:
                total += share
            return share.new_zeros(()).expand(share.shape)

        return add


@contextmanager
def _hooks_asleep(tensors: Sequence[Tensor]) -> Iterator[None]:
    # Autograd holds this very dictionary, so emptying it is what silences the hooks.
    lively = [x._backward_hooks for x in tensors if x._backward_hooks]  # noqa: SLF001
    kept = [dict(hooks) for hooks in lively]
    for hooks in lively:
        hooks.clear()
    try:
        yield
    finally:
        for hooks, before in zip(lively, kept, strict=True):
            hooks.update(before)

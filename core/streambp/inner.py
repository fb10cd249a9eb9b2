"""The derivative of one chunk, taken inside the backward pass of the whole, and sums of such.

Hooks that a user has put on a parameter belong to the whole gradient: they must see it once, not
once per chunk. `torch.autograd.grad` would run them on every share, so they sleep meanwhile.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from core.streambp.keys import summing_dtype


def shares_of(
    outs: Sequence[Tensor], inputs: Sequence[Tensor], grads: Sequence[Tensor]
) -> list[Tensor | None]:
    """Gradient of each input, None where the chunk did not use it; no hook on an input runs."""
    with _hooks_asleep(inputs):
        return list(torch.autograd.grad(outs, inputs, grads, allow_unused=True))


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


class GradientSums:
    """Sums of parameter gradients over chunks, in float32 where the parameters are narrower."""

    def __init__(self, params: list[Tensor]) -> None:
        self.params = params
        self._sums: list[Tensor | None] = [None] * len(params)
        self._ours = [False] * len(params)  # autograd may give one tensor to two parameters

    def add(self, shares: Iterable[Tensor | None]) -> None:
        """Add one chunk's gradients; None is a parameter that the chunk did not use."""
        for index, share in enumerate(shares):
            if share is None:
                continue
            total = self._sums[index]
            if total is None:
                self._sums[index] = share.to(summing_dtype(share.dtype))
            elif self._ours[index]:
                total += share
            else:
                self._sums[index], self._ours[index] = total + share, True

    def totals(self) -> list[Tensor | None]:
        """Give the sums in the dtypes of the parameters."""
        pairs = zip(self._sums, self.params, strict=True)
        return [None if total is None else total.to(p.dtype) for total, p in pairs]

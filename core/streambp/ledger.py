"""Where gradients go in a backward pass that is ours from end to end: straight to `.grad`.

Autograd lets a gradient grow in a buffer of its own, then adds that to `.grad`. A caller of
`backward_linear` has asked for nothing but that addition, so a weight that nobody watches is its own
buffer: neither a second head, nor a second embedding, nor the sums of a layer exist beside it.

Every node of the pass enters the weights that it will send gradient to, and says when it has. So it
is known when the last share of a weight has come, and the weight can be stepped and its gradient
freed before the layer below begins.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar

import torch
from torch import Tensor

from core.streambp.dtypes import summing_dtype
from core.streambp.inforce import in_force
from core.streambp.source import is_whole
from core.streambp.strays import ways_to_leaves

Settle = Callable[[Tensor], None]
"""Told of a weight whose gradient, in `.grad`, is complete; may take it away."""

_BLOCK = 4096  # rows of a product that are widened at once


class Ledger:
    """The weights of one pass whose gradients go straight, and how many nodes are still to send."""

    def __init__(self, settle: Settle | None = None) -> None:
        self._settle = settle
        self._nodes: Counter[Tensor] = Counter()
        self._shared: set[Tensor] = set()

    def enter(self, params: Iterable[Tensor]) -> list[Tensor]:
        """Note that one more node will send to those of `params` that want it and nobody watches.

        Gives these, to be handed to `sent`.
        """
        entered = [p for p in params if p.requires_grad and unwatched(p)]
        self._nodes.update(entered)
        return entered

    def takes(self, param: Tensor) -> bool:
        """Say whether gradients of `param` go straight."""
        return param in self._nodes

    def withhold_shared(self, root: Tensor) -> None:
        """Settle no weight to which autograd, from `root`, has a way past the nodes of the ledger."""
        if self._settle is not None:
            ways = ways_to_leaves([root])
            self._shared = {p for p, nodes in self._nodes.items() if ways[p] != nodes}

    def sent(self, entered: Iterable[Tensor]) -> None:
        """Note that a node has sent everything; settle weights that wait for no other."""
        for param in entered:
            self._nodes[param] -= 1
            whole = not self._nodes[param] and param not in self._shared
            if self._settle is not None and whole and param.grad is not None:
                self._settle(param)


# Per thread, and noted by every node in its forward pass: the backward pass may have threads of its own.
_ledger: ContextVar[Ledger | None] = ContextVar("streambp_ledger", default=None)


def keeping(ledger: Ledger | None) -> AbstractContextManager[None]:
    """While the block runs, nodes made in this thread send gradients by this ledger, if any."""
    return in_force(_ledger, value=ledger)


def ledger_now() -> Ledger | None:
    """Give the ledger by which a node that is made now is to send."""
    return _ledger.get()


def unwatched(param: Tensor) -> bool:
    """Say whether a gradient may go past autograd: no hook, no other process waits for it.

    Nor may `.grad` be too narrow for a long sum (see `Tensor.grad_dtype`).
    """
    watched = param._backward_hooks or param._post_accumulate_grad_hooks  # noqa: SLF001
    return is_whole(param) and not watched and summing_dtype(param.dtype) == _grad_dtype(param)


def own_grad(param: Tensor) -> Tensor:
    """Give `.grad` to add to; zeros where there was none."""
    if param.grad is None:
        param.grad = torch.zeros_like(param, dtype=_grad_dtype(param))
    return param.grad


def add_product(sum_ED: Tensor, left_NE: Tensor, right_ND: Tensor) -> None:
    """Add left^T right to the sum, in place; products of narrow factors are added in its dtype."""
    if sum_ED.dtype == left_NE.dtype:
        sum_ED.addmm_(left_NE.T, right_ND)
        return
    for start in range(0, len(sum_ED), _BLOCK):
        block = slice(start, start + _BLOCK)
        sum_ED[block] += left_NE[:, block].T @ right_ND


def _grad_dtype(param: Tensor) -> torch.dtype:
    return param.grad_dtype or param.dtype

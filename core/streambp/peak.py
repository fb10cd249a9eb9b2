"""The most bytes that tensors took at once while a block ran.

Every operation's answers are noted when they are made and crossed out when their storage dies. So
the figure is the same on every device and in every run, also for `meta` tensors that have no bytes
at all; what kernels allocate and free inside themselves is not seen.
"""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """`with LiveBytes() as live: ...`, then `live.peak`; storages from outside do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self._known: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = {id(s) for s in _storages((args, kwargs))}
        out = func(*args, **(kwargs or {}))
        for storage in _storages(out):
            if id(storage) not in given and id(storage) not in self._known:
                self._note(storage)
        return out

    def _note(self, storage: torch.UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()

        def forget(_: object) -> None:
            del self._known[key]
            self.now -= size

        self._known[key] = weakref.ref(storage, forget)
        self.now += size
        self.peak = max(self.peak, self.now)


def _storages(tree: Any) -> list[torch.UntypedStorage]:
    leaves = (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
    return [leaf.untyped_storage() for leaf in leaves if leaf.layout == torch.strided]

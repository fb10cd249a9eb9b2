"""The state of the random generators that a layer may draw from, kept per chunk and put back.

Dropout draws the same mask in the forward pass, in the recomputation of keys and values and in the
recomputation with a graph, because each starts from the state that the chunk had the first time.

One limit: these generators belong to the process. Where another thread draws from the same one while
a chunk runs, the chunk's draws in one pass interleave with that thread's, in another they do not: the
masks differ, and so do the gradients. On the CPU that is any thread that draws from torch's global
generator; give such a thread a `torch.Generator` of its own, or train without dropout there.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

RandomState = tuple[Tensor, Tensor | None]


def random_state(device: torch.device) -> RandomState:
    """Read the generators of the CPU and, where `device` is one, of that accelerator."""
    if device.type == "cpu":
        return torch.get_rng_state(), None
    return torch.get_rng_state(), torch.get_device_module(device).get_rng_state(device)


def changed(before: RandomState, device: torch.device) -> bool:
    """Say whether anything was drawn since `before` was taken."""
    pairs = zip(before, random_state(device), strict=True)
    return any(a is not None and b is not None and not torch.equal(a, b) for a, b in pairs)


@contextmanager
def replayed(state: RandomState | None, device: torch.device) -> Iterator[None]:
    """Run the block from `state` and leave the generators as they were; None leaves them alone."""
    if state is None:
        yield
        return
    outside = random_state(device)
    _set(state, device)
    try:
        yield
    finally:
        _set(outside, device)


def _set(state: RandomState, device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.get_device_module(device).set_rng_state(state[1], device)

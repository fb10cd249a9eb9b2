"""What is changed on a model's modules while it is attached or tried, and how it is put back."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from core.streambp.attention import stream_attention
from core.streambp.visibility import describe_mask

IMPLEMENTATION = "streambp"  # the name under which transformers finds our attention and our masks
AttentionInterface.register(IMPLEMENTATION, stream_attention)
AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)

_ENDLESS = 2**30  # tokens; kernels count them in 32 bits


class _Missing:
    """Stands for an attribute that was not there; a class, for it stays itself when copied."""


class Undo:
    """Attributes set on modules, with what they were."""

    def __init__(self) -> None:
        self._done: list[tuple[nn.Module, str, Any]] = []

    def set(self, module: nn.Module, name: str, value: Any) -> None:
        """Set an instance attribute, past nn.Module's own bookkeeping."""
        self._done.append((module, name, module.__dict__.get(name, _Missing)))
        module.__dict__[name] = value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.run()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While the block runs, have everything as it was before; then as it was set."""
        ours = [(module, name, module.__dict__[name]) for module, name, _ in self._done]
        self.run()
        try:
            yield
        finally:
            for change in ours:
                self.set(*change)

    def run(self) -> None:
        """Put everything back, last change first."""
        while self._done:
            module, name, before = self._done.pop()
            if before is _Missing:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = before


def name_our_attention(decoder: nn.Module, undo: Undo) -> None:
    """Let the decoder's configurations name our attention, and no cache."""

    def attends(config: Any) -> bool:
        return hasattr(config, "_attn_implementation")

    for ours in _own_configs(decoder, undo, attends):
        ours._attn_implementation = IMPLEMENTATION  # noqa: SLF001  has no public setter
        ours.use_cache = False


def open_empty_windows(decoder: nn.Module, undo: Undo) -> bool:
    """Take a window of 0 for none, where transformers lets nobody see through it; True if any was.

    It becomes one that is longer than any row, for families differ in how they write none.
    """

    def empty(config: Any) -> bool:
        return getattr(config, "sliding_window", None) == 0

    opened = list(_own_configs(decoder, undo, empty))
    for ours in opened:
        ours.sliding_window = _ENDLESS
    return bool(opened)


def _own_configs(decoder: nn.Module, undo: Undo, chosen: Callable[[Any], bool]) -> Iterator[Any]:
    """Give the decoder its own copies of its configurations: two models may share the originals."""
    copies: dict[int, Any] = {}
    for module in decoder.modules():
        config = module.__dict__.get("config")
        if config is None or not chosen(config):
            continue
        if id(config) not in copies:
            copies[id(config)] = copy.deepcopy(config)
            yield copies[id(config)]
        undo.set(module, "config", copies[id(config)])

"""What is changed on a model's modules while it is attached or tried, and how it is put back."""

import copy
from typing import Any, Self

from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface

from core.streambp.attention import stream_attention
from core.streambp.visibility import describe_mask

IMPLEMENTATION = "streambp"  # the name under which transformers finds our attention and our masks
AttentionInterface.register(IMPLEMENTATION, stream_attention)
AttentionMaskInterface.register(IMPLEMENTATION, describe_mask)

_MISSING = object()


class Undo:
    """Attributes set on modules, with what they were."""

    def __init__(self) -> None:
        self._done: list[tuple[nn.Module, str, Any]] = []

    def set(self, module: nn.Module, name: str, value: Any) -> None:
        """Set an instance attribute, past nn.Module's own bookkeeping."""
        self._done.append((module, name, module.__dict__.get(name, _MISSING)))
        module.__dict__[name] = value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.run()

    def run(self) -> None:
        """Put everything back, last change first."""
        while self._done:
            module, name, before = self._done.pop()
            if before is _MISSING:
                module.__dict__.pop(name, None)
            else:
                module.__dict__[name] = before


def name_our_attention(decoder: nn.Module, undo: Undo) -> None:
    """Give the decoder its own copies of its configurations: two models may share the originals."""
    copies: dict[int, Any] = {}
    for module in decoder.modules():
        config = module.__dict__.get("config")
        if config is None or not hasattr(config, "_attn_implementation"):
            continue
        if id(config) not in copies:
            ours = copies[id(config)] = copy.deepcopy(config)
            ours._attn_implementation = IMPLEMENTATION  # noqa: SLF001  has no public setter
            ours.use_cache = False
        undo.set(module, "config", copies[id(config)])

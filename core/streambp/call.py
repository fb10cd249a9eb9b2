"""One call of one decoder layer, ready to be repeated on any chunk of its tokens.

The names of the arguments that carry the hidden states and the cache are read from the layer's
signature, for they differ between families and versions of transformers.

Legend: B rows, T tokens, C tokens of a chunk, D width.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from core.streambp.errors import AttachmentError, LayerCallError
from core.streambp.keys import ChunkCache, HeldKeys
from core.streambp.strays import refuse_strays
from core.streambp.view import ChunkView, Tape
from core.streambp.visibility import Rule

_CACHE_NAMES = ("past_key_values", "past_key_value", "cache", "layer_past")
_ROWS_BY_TOKENS = 2
_TOKEN_AXIS = {"position_ids": -1, "cache_position": -1, "position_embeddings": -2}


def cache_argument(forward: Callable[..., Any]) -> str | None:
    """Find the parameter of `forward` that takes a cache: by annotation, else by a known name."""
    parameters = inspect.signature(forward).parameters
    for name, parameter in parameters.items():
        if "Cache" in str(parameter.annotation):
            return name
    return next((name for name in parameters if name in _CACHE_NAMES), None)


@dataclass(slots=True)
class LayerCall:
    """`forward` with every argument but the hidden states, which chunks replace."""

    forward: Callable[..., Any]
    cache_name: str
    rule: Rule | None  # None: the layer was given no mask to attend with, nor a rule in its place
    tokens: int
    kwargs: dict[str, Any]
    extras: int | None = None  # outputs after the first, where the layer returns a tuple
    carries: bool = False  # whether the layer was seen to carry states from chunk to chunk
    attached: Callable[[], bool] = lambda: True  # whether the layer is still ours
    params: tuple[Tensor, ...] = ()  # of the layer

    @staticmethod
    def bind(
        forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple["LayerCall", Tensor]:
        """Split a call into what stays the same for every chunk, and hidden_BTD."""
        names = list(inspect.signature(forward).parameters)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        hidden_BTD = given.pop(names[0])
        rule = given.pop("attention_mask", None)
        if isinstance(rule, Rule):
            rule.layout.check_covers(*hidden_BTD.shape[:2])
        elif isinstance(rule, Tensor) and rule.ndim != _ROWS_BY_TOKENS:
            raise LayerCallError("attention_mask", tuple(rule.shape), "only a rule can be streamed")
        else:
            given["attention_mask"], rule = rule, None
        cache_name = cache_argument(forward)
        if cache_name is None:
            raise LayerCallError("layer", _owner(forward), "its forward takes no cache")
        if given.pop(cache_name, None) is not None:
            raise LayerCallError(
                cache_name, "a cache", "pass use_cache=False, or decode inside unstreamed(model)"
            )
        return LayerCall(forward, cache_name, rule, hidden_BTD.shape[1], given), hidden_BTD

    def view(
        self, bounds: tuple[int, int], held: HeldKeys | None = None, tape: Tape | None = None
    ) -> ChunkView | None:
        """Describe what a chunk may see; None for a layer that was given no rule."""
        return None if self.rule is None else ChunkView(self.rule, bounds, held, tape)

    def run(
        self, hidden_BCD: Tensor, bounds: tuple[int, int], view: ChunkView | None, cache: ChunkCache
    ) -> Tensor:
        """Run the layer on one chunk."""
        given = self._sliced(*bounds)
        given[self.cache_name] = cache
        if view is not None:
            given["attention_mask"] = view
        out = self.forward(hidden_BCD, **given)
        if isinstance(out, Tensor):
            return out
        if any(isinstance(extra, Tensor) for extra in out[1:]):
            raise LayerCallError(
                "layer", _owner(self.forward), "it returns more than hidden states"
            )
        self.extras = len(out) - 1
        return out[0]

    def packaged(self, out_BTD: Tensor) -> Any:
        """Give the output in the shape in which the layer itself gives it."""
        return out_BTD if self.extras is None else (out_BTD, *[None] * self.extras)

    def refuse_strays(self, outs: list[Tensor], inputs: list[Tensor]) -> None:
        """Raise LayerCallError where anything but `inputs` and parameters wants gradient."""
        refuse_strays(_owner(self.forward), outs, [*inputs, *self.params])

    def refuse_detached(self) -> None:
        """Raise AttachmentError where the layer has been given back its own attention."""
        if not self.attached():
            raise AttachmentError(
                "model", "detached", "keep it attached until the backward pass is done"
            )

    def _sliced(self, start: int, stop: int) -> dict[str, Any]:
        return {
            name: _slice(name, value, self.tokens, start, stop)
            for name, value in self.kwargs.items()
        }


def _owner(forward: Callable[..., Any]) -> str:
    return type(getattr(forward, "__self__", forward)).__name__


def _slice(name: str, value: Any, tokens: int, start: int, stop: int) -> Any:
    """Cut the tokens of a chunk out of an argument; tensors without a token axis stay whole."""
    if isinstance(value, (tuple, list)):
        return type(value)(_slice(name, x, tokens, start, stop) for x in value)
    if isinstance(value, dict):
        return {key: _slice(name, x, tokens, start, stop) for key, x in value.items()}
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad:
        raise LayerCallError(name, tuple(value.shape), "only hidden states carry gradient here")
    if tokens not in value.shape:
        return value
    axis = _TOKEN_AXIS.get(name, 1)
    if value.ndim < -axis or value.shape[axis] != tokens:
        raise LayerCallError(name, tuple(value.shape), f"its axis {axis} is not one of tokens")
    return value.narrow(axis, start, stop - start)


@dataclass(frozen=True, slots=True)
class Autocast:
    """The autocast state of the forward pass, for the backward pass to compute in."""

    device_type: str
    dtype: torch.dtype
    enabled: bool

    @staticmethod
    def current(device_type: str) -> "Autocast":
        """Note what is in force now."""
        return Autocast(
            device_type,
            torch.get_autocast_dtype(device_type),
            torch.is_autocast_enabled(device_type),
        )

    def __call__(self) -> torch.autocast:
        """Enter that state, without autocast's own cache.

        The cache would hold casts of weights made without a graph and hand them to one with.
        """
        return torch.autocast(
            self.device_type, dtype=self.dtype, enabled=self.enabled, cache_enabled=False
        )

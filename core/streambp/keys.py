"""The keys and values of one layer, their gradients, and the cache object that catches them.

Decoder layers hand every chunk's keys and values to the `update` of a cache. Ours keeps them, and
can stop the layer right there, when nothing but keys and values is wanted.

Legend: B rows, H key heads, T tokens, C tokens of a chunk, K head width.
"""

import torch
from torch import Tensor

from core.streambp.carried import CarriedStates, States
from core.streambp.dtypes import as_autocast, summing_dtype
from core.streambp.errors import LayerCallError

Place = tuple[slice, slice, slice]  # rows, heads, tokens


class KeysCaught(Exception):
    """Not an error: unwinds a layer whose keys and values are all that was wanted."""


class ChunkCache(CarriedStates):
    """Stands where a layer expects its cache, for one run over one chunk."""

    def __init__(
        self, start: int, incoming: States | None = None, *, stop_after_update: bool = False
    ) -> None:
        super().__init__(incoming)
        self.start = start
        self.pair: tuple[Tensor, Tensor] | None = None
        self._stop = stop_after_update

    def update(
        self, key_BHCK: Tensor, value_BHCK: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Keep this chunk's keys and values and give them back as they are."""
        if self.pair is not None:
            raise LayerCallError("layer", layer_idx, "it updates its cache twice in one call")
        self.pair = key_BHCK, value_BHCK
        if self._stop:
            raise KeysCaught
        return key_BHCK, value_BHCK

    def get_seq_length(self, _layer_idx: int = 0) -> int:
        """Count the tokens before this chunk."""
        return self.start


class HeldKeys:
    """Keys and values of the first `tokens` of a row, and the gradients gathered for them."""

    def __init__(self, tokens: int, pair: tuple[Tensor, Tensor] | None = None) -> None:
        self.tokens, self.pair = tokens, pair
        self._grads: tuple[Tensor, Tensor] | None = None

    def write(self, start: int, key_BHCK: Tensor, value_BHCK: Tensor) -> None:
        """Copy one chunk in, in the dtype that attention computes with."""
        key, value = as_autocast(key_BHCK), as_autocast(value_BHCK)
        if self.pair is None:
            self.pair = self._room(key), self._room(value)
        tokens = slice(start, start + key.shape[2])
        self.pair[0][:, :, tokens] = key
        self.pair[1][:, :, tokens] = value

    def read(self, at: Place) -> tuple[Tensor, Tensor]:
        """View the keys and values at a place."""
        assert self.pair is not None, "read before any chunk was written"
        return self.pair[0][at], self.pair[1][at]

    def add_grads(self, at: Place, key_grad: Tensor | None, value_grad: Tensor | None) -> None:
        """Add what a later chunk sends back to the keys and values at a place."""
        assert self.pair is not None, "gradients for keys that were never written"
        if self._grads is None:
            key, value = (torch.zeros_like(x, dtype=summing_dtype(x.dtype)) for x in self.pair)
            self._grads = key, value
        for held, x in zip(self._grads, (key_grad, value_grad), strict=True):
            if x is not None:
                held[at] += x

    def grads(self, start: int, stop: int) -> tuple[Tensor, Tensor] | None:
        """View the gradients of keys and values `start:stop`; None where no chunk sent any."""
        if self._grads is None or start >= self.tokens:
            return None
        key, value = self._grads
        return key[:, :, start:stop], value[:, :, start:stop]

    def _room(self, like_BHCK: Tensor) -> Tensor:
        return like_BHCK.new_empty(*like_BHCK.shape[:2], self.tokens, like_BHCK.shape[3])

"""What a layer's input is made from again in the backward pass: the input itself, or the tokens.

The first layer of most families is given rows of the embedding, and nothing done to them. These need
not be kept: a chunk's rows are looked up again.

Legend: B rows, T tokens, C tokens of a chunk, D width, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor, distributed
from torch.nn import functional

from core.streambp.atwork import is_ordinary

_ATTRIBUTE = "_streambp_lookup"


class Whole(NamedTuple):
    """The input as it was."""

    hidden_BTD: Tensor

    def chunk(self, start: int, stop: int) -> Tensor:
        """Give hidden_BCD."""
        return self.hidden_BTD[:, start:stop]

    def new_empty(self) -> Tensor:
        """Give room for its gradient."""
        return torch.empty_like(self.hidden_BTD)


class Lookup(NamedTuple):
    """Rows of a table."""

    ids_BT: Tensor
    weight_VD: Tensor

    def chunk(self, start: int, stop: int) -> Tensor:
        """Give hidden_BCD."""
        return functional.embedding(self.ids_BT[:, start:stop], self.weight_VD.detach())

    def new_empty(self) -> Tensor:
        """Give room for its gradient."""
        return self.weight_VD.new_empty(*self.ids_BT.shape, self.weight_VD.shape[1])


Source = Whole | Lookup


def note_lookup(hidden_BTD: Tensor, ids_BT: Tensor, weight_VD: Tensor) -> Tensor:
    """Note on hidden_BTD itself where it came from, and give it back."""
    if is_whole(weight_VD):
        found = Lookup(ids_BT, weight_VD), hidden_BTD._version  # noqa: SLF001  no public reader
        setattr(hidden_BTD, _ATTRIBUTE, found)
    return hidden_BTD


def lookup_of(hidden_BTD: Tensor) -> Lookup | None:
    """Give what was noted, unless something was written into hidden_BTD since."""
    lookup, version = getattr(hidden_BTD, _ATTRIBUTE, (None, None))
    return lookup if version == hidden_BTD._version else None  # noqa: SLF001


def is_whole(param: Tensor) -> bool:
    """Say whether a weight is all here, and stays: no other process has a part in it."""
    alone = not (distributed.is_available() and distributed.is_initialized())
    return is_ordinary(param) and param.is_leaf and alone

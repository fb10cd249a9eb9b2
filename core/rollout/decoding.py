"""Rows in the middle of being decoded: what they were answered, by a model with a cache.

The one idea: transformers' caches can take rows by number. Taking one several times shares the
prefill of a prompt between its answers; leaving one out ends it, so finished rows cost nothing.

`generate` is not used: it rounds logits to float32, mixes the model's own generation settings into
the caller's, and computes every row until the last one ends.

Padding stands on the left, is masked, and positions count real tokens only.

Legend: B rows, T tokens so far with padding, N new tokens, V vocabulary.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from core.streambp.anatomy import causal_lm, decoder_of
from core.streambp.call import cache_argument

_PAD_ID = 0  # never seen: it is masked


def carries_states(model: nn.Module) -> bool:
    """Say whether a layer carries states from token to token, into which padding would leak."""
    return any(_empty_cache(model).is_linear)


def _empty_cache(model: nn.Module) -> Any:
    # Its own configuration: while a model is attached, that is where empty windows are opened.
    config: Any = decoder_of(causal_lm(model)).config
    return DynamicCache(config=config)


class Decoding:
    """Prompts that have been read; `logits_BV` are of the next token of every row.

    The model computes as a stock one and without gradients; see `resting`.
    """

    logits_BV: Tensor

    def __init__(self, model: nn.Module, prompts: Sequence[Sequence[int]]) -> None:
        self._model = causal_lm(model)
        self._names = inspect.signature(self._model.forward).parameters
        self._cache_name = cache_argument(self._model.forward) or "cache"
        self._cache: Any = _empty_cache(self._model)
        longest = max(len(prompt) for prompt in prompts)
        device = next(self._model.parameters()).device
        padded = [[_PAD_ID] * (longest - len(x)) + list(x) for x in prompts]
        real = [[0] * (longest - len(x)) + [1] * len(x) for x in prompts]
        self._mask_BT = torch.tensor(real, device=device)
        self._read(torch.tensor(padded, device=device))

    def take(self, rows: Sequence[int]) -> None:
        """Go on with these rows, by number: any may be left out, or stand several times."""
        rows_B = torch.tensor(rows, device=self._mask_BT.device)
        self._cache.reorder_cache(rows_B)
        self._mask_BT = self._mask_BT[rows_B]
        self.logits_BV = self.logits_BV[rows_B]

    def step(self, token_B: Tensor) -> None:
        """Give every row its next token."""
        token_B1 = token_B[:, None]
        self._mask_BT = torch.cat((self._mask_BT, torch.ones_like(token_B1)), dim=1)
        self._read(token_B1)

    def _read(self, ids_BN: Tensor) -> None:
        position_BT = (self._mask_BT.cumsum(-1) - 1).clamp_(min=0)
        given = {
            "attention_mask": self._mask_BT,
            "position_ids": position_BT[:, -ids_BN.shape[1] :],
            self._cache_name: self._cache,
            "use_cache": True,
            "logits_to_keep": 1,
        }
        given = {name: value for name, value in given.items() if name in self._names}
        self.logits_BV = self._model(input_ids=ids_BN, **given).logits[:, -1]

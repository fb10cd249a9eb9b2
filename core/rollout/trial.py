"""Whether a model decodes as it computes whole rows is tried, not looked up.

A few short prompts are read, shared, shortened and decoded one token further; the logits must be
those of the whole row, computed alone and without a cache. What a family does with its positions,
masks and states need not be known. Where only prompts of unlike lengths go wrong, or where layers
carry states from token to token, prompts of one length are sampled together.

Legend: V vocabulary.
"""

from collections.abc import Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from core.rollout.decoding import Decoding, carries_states
from core.rollout.errors import UndecodableError
from core.streambp.anatomy import causal_lm
from core.streambp.records import SHARE

_EVEN, _UNEVEN = (5, 5, 5, 5), (6, 4, 3, 1)
_ORDER = (3, 1, 0, 2, 1)


def may_pad(model: nn.Module) -> bool:
    """Say whether prompts of unlike lengths may stand in one batch.

    The model is at rest. Raises UndecodableError where not even those of one length may.
    """
    name = type(causal_lm(model)).__name__
    try:
        even = _departure(model, _EVEN)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a foreign model fails with
        remedy = f"it does not decode with a cache: {type(error).__name__}: {error}"
        raise UndecodableError("model", name, remedy) from error
    if not even <= 1:
        remedy = f"one token at a time it differs from whole rows, {even:.1e} times the tolerance"
        raise UndecodableError("model", name, remedy)
    return not carries_states(model) and _departure(model, _UNEVEN) <= 1


def _rows(model: nn.Module, lengths: Sequence[int]) -> list[list[int]]:
    embedding: Any = causal_lm(model).get_input_embeddings()
    ids = len(embedding.weight)
    return [[(7 * row + 3 * place) % ids for place in range(n)] for row, n in enumerate(lengths)]


def _departure(model: nn.Module, lengths: Sequence[int]) -> float:
    """The median row's, as a share of what its dtype allows: one expert may go the other way."""
    whole = _rows(model, [n + 1 for n in lengths])
    decoding = Decoding(model, [row[:-1] for row in whole])
    decoding.take(_ORDER)
    rows = [whole[i] for i in _ORDER]
    decoding.step(torch.tensor([row[-1] for row in rows], device=decoding.logits_BV.device))
    pairs = zip(decoding.logits_BV, rows, strict=True)
    return median(_off(logits_V, _whole(model, row)) for logits_V, row in pairs)


def _whole(model: nn.Module, row: list[int]) -> Tensor:
    causal = causal_lm(model)
    ids = torch.tensor([row], device=next(causal.parameters()).device)
    return causal(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits[0, -1]


def _off(got_V: Tensor, want_V: Tensor) -> float:
    off = (got_V.double() - want_V.double()).norm() / want_V.double().norm()
    # In some families padding attends to nothing, which is not a number, and spreads.
    return float(off.nan_to_num(nan=torch.inf)) / SHARE[want_V.dtype]

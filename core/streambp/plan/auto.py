"""The chunk length that suits a model, a context and a budget: `chunk_tokens: auto`.

A longer chunk takes less time, for there are fewer walks and larger products, until the products
keep the device busy; from there on it only takes more memory. So the rule is: the longest chunk
that fits, up to the length at which the device is busy (512 tokens on a CPU, 2,048 on a GPU), and
twice that where it raises the peak by a twentieth at most.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from transformers import PreTrainedConfig

from core.streambp.errors import BudgetError
from core.streambp.plan.footprint import Change, Footprint, footprints
from core.streambp.plan.memory import GIB, longest_context, memory_plan
from core.streambp.plan.terms import Wish

BUSY = 2048
"""Tokens whose products keep a GPU busy."""

BUSY_CPU = 512
"""The same of a CPU."""

SMALL_RISE = 1.05
_HALVINGS = 3  # below an eighth a step would be all overhead


def busy_tokens(device_type: str) -> int:
    """The length from which longer chunks take no less time, on "cpu" or any other device."""
    return BUSY_CPU if device_type == "cpu" else BUSY


def best_chunk(
    config: PreTrainedConfig, tokens: int, wish: Wish, budget_bytes: int,
    *, dtype: torch.dtype, busy: int = BUSY,
) -> int:  # fmt: skip
    """The chunk length for `wish.rows` rows of `tokens` tokens within `budget_bytes`, all counted.

    `busy` as from `busy_tokens`. Nothing is loaded. Raises BudgetError, which tells the longest
    context that would fit, where no chunk length does; PlanError where `config` has no plan.
    """
    ladder = chunk_ladder(config, dtype=dtype, busy=busy)
    return best_of(ladder, [(wish.rows, tokens)], wish, budget_bytes).chunk_tokens


def chunk_ladder(
    config: PreTrainedConfig, *, dtype: torch.dtype, busy: int = BUSY, change: Change | None = None
) -> list[Footprint]:
    """The model in every chunk length that is tried: from 2 `busy` down to an eighth of `busy`.

    `change` is what is done to it before it is trained.
    """
    lengths = [2 * busy] + [max(busy >> halvings, 1) for halvings in range(_HALVINGS + 1)]
    return footprints(config, dtype=dtype, chunk_lengths=lengths, change=change)


def best_of(
    ladder: Sequence[Footprint], shapes: Sequence[tuple[int, int]], wish: Wish, budget_bytes: int
) -> Footprint:
    """Of `ladder`, longest first, the one for steps of all `shapes`: (rows, tokens a row).

    `wish.rows` is not looked at. Raises BudgetError.
    """
    needs = [max(_need(model, shape, wish) for shape in shapes) for model in ladder]
    first = 1 if len(needs) > 1 and needs[0] > SMALL_RISE * needs[1] else 0
    for model, need in zip(ladder[first:], needs[first:], strict=True):
        if need <= budget_bytes:
            return model
    raise _no_fit(ladder[-1], shapes, wish, budget_bytes)


def _need(model: Footprint, shape: tuple[int, int], wish: Wish) -> int:
    rows, tokens = shape
    return memory_plan(model, tokens, replace(wish, rows=rows)).total


def _no_fit(
    model: Footprint, shapes: Sequence[tuple[int, int]], wish: Wish, budget_bytes: int
) -> BudgetError:
    rows, tokens = max(shapes, key=lambda shape: _need(model, shape, wish))
    needs = f"{rows} x {tokens:,} tokens need {_need(model, (rows, tokens), wish) / GIB:.2f} GiB"
    longest = longest_context(model, replace(wish, rows=rows), budget_bytes)
    return BudgetError(
        "budget_bytes",
        budget_bytes,
        f"{needs} in chunks of {model.chunk_tokens}; the longest context that fits into"
        f" {budget_bytes / GIB:.2f} GiB is {longest:,} tokens",
    )

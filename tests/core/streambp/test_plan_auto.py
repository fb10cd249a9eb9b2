"""`chunk_tokens: auto` is the longest chunk that fits and pays, and says what would fit if none does."""

import re
from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config

from core.streambp.plan import (
    BudgetError,
    Wish,
    best_chunk,
    best_of,
    busy_tokens,
    chunk_ladder,
    footprint,
    memory_plan,
)

BUSY, TOKENS = 128, 4096
WISH = Wish(head_chunk_tokens=16)
CONFIG = Qwen3Config(
    hidden_size=128, intermediate_size=2048, num_hidden_layers=3, vocab_size=256, head_dim=32,
    num_attention_heads=4, num_key_value_heads=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def ladder():
    return chunk_ladder(CONFIG, dtype=torch.float32, busy=BUSY)


@pytest.fixture(scope="module")
def needs(ladder):
    return {m.chunk_tokens: memory_plan(m, TOKENS, WISH).total for m in ladder}


def chosen(ladder, budget, *shapes):
    return best_of(ladder, shapes or [(1, TOKENS)], WISH, budget).chunk_tokens


def test_the_lengths_tried_are_counted_each_in_its_own_chunks(ladder):
    assert [m.chunk_tokens for m in ladder] == [256, 128, 64, 32, 16]
    assert ladder[2] == footprint(CONFIG, dtype=torch.float32, chunk_tokens=64)


def test_less_memory_gives_the_longest_chunk_that_still_fits(ladder, needs):
    for length in (128, 64, 32, 16):
        assert chosen(ladder, needs[length]) == length
        assert chosen(ladder, needs[length] + 1) == length


def test_more_memory_than_is_needed_changes_nothing(ladder, needs):
    assert {chosen(ladder, needs[128] * k) for k in (1, 2, 1000)} == {BUSY}


def test_twice_as_long_is_taken_only_where_it_costs_next_to_nothing(ladder):
    # Besides a vocabulary of a million, whose gradient is the peak, no chunk is worth a word.
    heavy = [replace(m, vocabulary=2**20) for m in ladder]
    assert chosen(heavy, 2**40) == 2 * BUSY
    assert chosen(ladder, 2**40) == BUSY


def test_it_has_to_fit_for_every_shape_of_a_pass(ladder):
    wide, long = (16, 256), (1, TOKENS)
    budget = max(memory_plan(ladder[3], t, replace(WISH, rows=r)).total for r, t in (wide, long))
    assert chosen(ladder, budget, long) > chosen(ladder, budget, wide, long)
    assert chosen(ladder, budget, wide, long) == chosen(ladder, budget, long, wide) == 32


def test_where_none_fits_the_longest_context_is_told_and_does(ladder, needs):
    budget = needs[16] - 1
    with pytest.raises(BudgetError, match="1 x 4,096 tokens need") as refused:
        chosen(ladder, budget)
    longest = int(re.search(r"is ([\d,]+) tokens", refused.value.remedy)[1].replace(",", ""))
    assert 0.9 * TOKENS < longest < TOKENS
    assert chosen(ladder, budget, (1, longest)) == 16
    with pytest.raises(BudgetError):
        chosen(ladder, budget, (1, longest + 1))


def test_a_budget_below_the_weights_is_refused(ladder):
    with pytest.raises(BudgetError, match="one chunk of 16 tokens needs"):
        chosen(ladder, ladder[0].weights)


def test_one_call_does_for_somebody_with_a_configuration(needs):
    ask = {"dtype": torch.float32, "busy": BUSY}
    assert best_chunk(CONFIG, TOKENS, WISH, needs[64], **ask) == 64
    assert best_chunk(CONFIG, TOKENS, WISH, 2**40, dtype=torch.float32) >= busy_tokens("cuda")
    assert busy_tokens("cuda") > busy_tokens("cpu")

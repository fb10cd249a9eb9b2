"""The head in chunks gives the log-probabilities and gradients of whole logits."""

import pytest
import torch
from torch import nn

from core.streambp import attach, token_logps
from core.streambp.errors import ChunkLengthError, UnknownHeadError


@pytest.mark.parametrize("chunk", [7, 10, 50])
def test_a_masked_prompt_of_20_in_50_tokens_with_head_chunks_of_10(
    chunk, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny("llama"), batch(50, (50,), masked=20)
    assert_same(streamed_run(model, data, chunk, head=10), plain_run(model, data), 5e-6)


@pytest.mark.parametrize("head", [1, 3, 19, 20])
@pytest.mark.parametrize("family", ["gpt2", "gemma2", "granite", "cohere2"])
def test_scaling_capping_and_tying_for_every_head_chunk(
    head, family, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny(family), batch()
    assert_same(streamed_run(model, data, 5, head=head), plain_run(model, data), 5e-6)


def test_a_bias_on_the_head(tiny, batch, plain_run, streamed_run, assert_same):
    model = tiny("gpt2", tie_word_embeddings=False)
    model.lm_head = nn.Linear(32, 61, dtype=torch.float64)
    assert_same(streamed_run(model, batch(), 4), plain_run(model, batch()), 1e-10)


def test_unscored_tokens_cost_nothing_in_the_head(tiny, batch):
    model, data, rows = tiny("llama"), batch(), []
    with attach(model, chunk_tokens=4):
        model.lm_head.register_forward_hook(lambda _m, args, _o: rows.append(len(args[0])))
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=10)
    scored = data.targets_BT != -100
    assert sum(rows) == int(scored.sum())
    assert max(rows) <= 10
    assert torch.equal(logp[~scored], torch.zeros_like(logp[~scored]))


def test_a_batch_without_a_scored_token_has_zero_gradients(tiny, batch):
    model, data = tiny("llama"), batch()
    nothing = torch.full_like(data.targets_BT, -100)
    with attach(model, chunk_tokens=4):
        token_logps(model, data.ids_BT, nothing, data.layout, head_chunk_tokens=4).sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in model.parameters())


def test_log_probabilities_are_float32_of_float32_models(tiny, batch):
    model, data = tiny("llama").float(), batch()
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
    assert logp.dtype == torch.float32


def test_a_head_that_does_more_than_its_configuration_says_is_refused(tiny):
    model = tiny("llama")
    stock = type(model).forward

    class Tempered(type(model)):
        def forward(self, *args, **kwargs):
            out = stock(self, *args, **kwargs)
            out.logits = out.logits / 0.7
            return out

    model.__class__ = Tempered
    with pytest.raises(UnknownHeadError, match="more than scale and soft-cap"):
        attach(model, chunk_tokens=4)


def test_head_chunks_hold_at_least_one_token(tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4), pytest.raises(ChunkLengthError, match="head_chunk_tokens"):
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=0)

"""Streamed gradients of every parameter equal ordinary autograd's, for all chunk lengths."""

import copy

import pytest
import torch

from core.streambp import attach, token_logps

# Llama-like families soften attention scores in float32 when they attend eagerly, as the oracle
# does; the flash kernels stay in float64. Families that take their own eager path agree far better.
CASTS = 1e-6
SAME = 1e-10
FAMILIES = {
    "llama": CASTS,
    "qwen2": CASTS,
    "qwen3": CASTS,
    "mixtral": CASTS,
    "granite": CASTS,
    "cohere2": CASTS,
    "gpt_neox": CASTS,
    "gemma3_text": CASTS,
    "gemma2": CASTS,
    "mistral": CASTS,
    "gpt2": SAME,
    "gpt_oss": SAME,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_plain_autograd_for_every_chunk_length(
    family, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny(family), batch()
    want = plain_run(model, data)
    for chunk in (1, 3, 5, 13, 14):
        assert_same(streamed_run(model, data, chunk), want, FAMILIES[family])


@pytest.mark.parametrize("family", ["llama", "qwen3", "mixtral", "mistral"])
def test_chunk_length_does_not_change_gradients(family, tiny, batch, streamed_run, assert_same):
    model, data = tiny(family), batch()
    assert_same(streamed_run(model, data, 4), streamed_run(model, data, 13), 1e-10)


@pytest.mark.parametrize("tied", [False, True])
def test_tied_and_untied_heads(tied, tiny, batch, plain_run, streamed_run, assert_same):
    model, data = tiny("llama", tie_word_embeddings=tied), batch()
    assert (model.lm_head.weight is model.model.embed_tokens.weight) == tied
    assert_same(streamed_run(model, data, 4), plain_run(model, data), CASTS)


def test_biases_and_few_key_heads(tiny, batch, plain_run, streamed_run, assert_same):
    model = tiny("llama", attention_bias=True, mlp_bias=True, num_key_value_heads=1)
    assert_same(streamed_run(model, batch(), 4), plain_run(model, batch()), CASTS)


def test_frozen_parameters_get_no_gradient_and_change_none(
    tiny, batch, plain_run, streamed_run, assert_same
):
    model = tiny("qwen3")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("k_proj" in name or "down_proj" in name)
    got = streamed_run(model, batch(), 4)
    assert all("proj" in name for name in got[1])
    assert_same(got, plain_run(model, batch()), CASTS)


def test_accumulating_two_batches_adds_their_gradients(tiny, batch, assert_same):
    model, data = tiny("gpt2"), batch()
    runs = []
    for rows in ([slice(0, 2)], [slice(0, 1), slice(1, 2)]):
        copied = copy.deepcopy(model)
        with attach(copied, chunk_tokens=4):
            for part in rows:
                layout = type(data.layout)(
                    data.layout.segments[part], data.layout.real[part], data.layout.tokens
                )
                logp = token_logps(
                    copied, data.ids_BT[part], data.targets_BT[part], layout, head_chunk_tokens=7
                )
                (logp * data.weight_BT[part]).sum().backward()
        runs.append((torch.zeros(1), {n: p.grad for n, p in copied.named_parameters()}))
    assert_same(runs[0], runs[1], 1e-10)

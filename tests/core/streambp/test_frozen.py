"""Whatever part of a model is trained, it gets its exact gradient and the rest gets none."""

import re

import pytest

from core.streambp import attach, token_logps

TRAINED = {
    "the embedding alone": "embed_tokens",
    "the first layer": r"layers\.0",
    "a layer between frozen ones": r"layers\.1",
    "the last layer and the head": r"layers\.2|lm_head",
    "the head alone": "lm_head",
    "norms": "norm",
    "keys alone": r"k_proj\.weight",
    "biases": "bias",
    "all but the embedding": "^(?!.*embed_tokens)",
}


@pytest.mark.parametrize("part", TRAINED)
def test_the_trained_part_equals_plain_autograd(
    part, tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny("qwen3", num_hidden_layers=3, attention_bias=True), batch()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(bool(re.search(TRAINED[part], name)))
    got = streamed_run(model, data, 4, policy={"keep": "hidden+attention"})
    want = plain_run(model, data)
    assert all(want[1][name].norm() > 0 for name in want[1])
    assert_same(got, want, 1e-6)


def test_the_frozen_part_gets_none(tiny, batch):
    model, data = tiny("qwen3"), batch()
    model.requires_grad_(False)
    model.model.layers[1].self_attn.requires_grad_()
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        logp.sum().backward()
    with_grad = {name for name, p in model.named_parameters() if p.grad is not None}
    assert with_grad == {name for name, _ in model.named_parameters() if "layers.1.self" in name}


def test_a_weight_may_be_frozen_and_thawed_between_steps(tiny, batch, plain_run, assert_same):
    model, data = tiny("qwen3"), batch()
    weight = model.model.layers[0].mlp.up_proj.weight
    with attach(model, chunk_tokens=4):
        for trained in (False, True):
            weight.requires_grad_(trained)
            model.zero_grad()
            logp = token_logps(
                model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4
            )
            (logp * data.weight_BT).sum().backward()
            assert (weight.grad is not None) == trained
    got = {name: p.grad for name, p in model.named_parameters()}
    assert_same((logp.detach(), got), plain_run(tiny("qwen3"), data), 1e-6)


def test_weights_shared_between_layers_and_within_one_gather_all_shares(
    tiny, batch, plain_run, streamed_run, assert_same
):
    model, data = tiny("llama"), batch()
    first, second = model.model.layers
    second.mlp = first.mlp
    first.mlp.up_proj.weight = first.mlp.gate_proj.weight
    assert_same(streamed_run(model, data, 4), plain_run(model, data), 1e-6)

"""The step inside the backward pass on int8 weights: the bits of an ordinary step, one layer at a time."""

import pytest
import torch
import transformers

from core.optim import APOLLO_MINI, Apollo, exact_state, parameter_groups, quantise_model
from core.optim.fused import FusedStep
from core.streambp import Layout, attach, backward_linear
from core.streambp.peak import LiveBytes


def llama(dtype, layers=3, width=32):
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, vocab_size=40,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).to(dtype)
    quantise_model(model, group=16)
    return model


def backward(model, settle):
    ids = torch.arange(24).view(2, 12) % 40
    weight = torch.full(ids.shape, -1 / ids.numel())
    layout = Layout.causal([12, 12], 12)
    return backward_linear(
        model, ids, (ids + 1) % 40, layout, weight, head_chunk_tokens=5, settle=settle
    )


def steps(model, *, fused, count=3):
    optimizer = Apollo(parameter_groups(model, embeddings="apollo"), lr=1e-2, **APOLLO_MINI)
    inside = FusedStep(optimizer)  # also gives narrow weights float32 gradients
    losses = []
    with attach(model, chunk_tokens=4):
        for _ in range(count):
            losses.append(-float(backward(model, inside if fused else None).mean()))
            if fused:
                inside.finish()
            else:
                optimizer.step()
                optimizer.zero_grad()
    return losses


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_fused_step_leaves_the_codes_of_an_ordinary_one(dtype):
    one, two = llama(dtype), llama(dtype)
    losses = steps(one, fused=True)
    assert losses == steps(two, fused=False)
    assert losses[-1] < losses[0]
    pairs = zip(exact_state(one).items(), exact_state(two).items(), strict=True)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)
    assert all(p.grad is None for p in one.parameters())


def test_a_fused_step_needs_memory_for_one_layer_and_not_for_all():
    peaks = []
    for layers in (2, 6):
        model = llama(torch.float32, layers, width=128)
        steps(model, fused=True, count=1)
        with LiveBytes() as live:
            steps(model, fused=True, count=1)
        peaks.append(live.peak)
    layer = sum(p.numel() for p in model.model.layers[0].parameters())
    assert peaks[1] - peaks[0] < 4 * layer  # four more layers: less than one float32 layer

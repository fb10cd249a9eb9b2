"""Dropout: both passes draw the same masks, and generators move on as in one plain pass."""

import copy
import itertools

import pytest
import torch
from torch import nn

from core.streambp import attach, plain, token_logps
from core.streambp.widen import Widened

NOISY = {"resid_pdrop": 0.2, "embd_pdrop": 0.1, "attn_pdrop": 0.3}


def streamed_loss(model, data, chunk, *, backward=True, **policy):
    """The loss from seed 5; says too whether the backward pass left the generators alone."""
    with attach(model, chunk_tokens=chunk, **policy):
        torch.manual_seed(5)
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        loss, before = (logp * data.weight_BT).sum(), torch.get_rng_state()
        if backward:
            loss.backward()
    return loss.detach(), torch.equal(before, torch.get_rng_state())


def test_one_chunk_draws_what_plain_autograd_draws(tiny, batch):
    model, data = tiny("gpt2", **NOISY).train(), batch(13, (13,))
    other = copy.deepcopy(model)
    streamed_loss(model, data, 13)
    after = torch.get_rng_state()
    torch.manual_seed(5)
    logp = plain.token_logps(other, data.ids_BT, data.targets_BT, data.layout)
    (logp * data.weight_BT).sum().backward()
    assert torch.equal(torch.get_rng_state(), after)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-9, atol=1e-9)


def adapted(model):
    """Dropout where low-rank adapters have it: before a projection."""
    for layer in model.model.layers:
        layer.mlp.down_proj = nn.Sequential(nn.Dropout(0.3), layer.mlp.down_proj)
        layer.self_attn.k_proj = nn.Sequential(nn.Dropout(0.3), layer.self_attn.k_proj)
    return model


MODELS = {
    "everywhere": lambda tiny: tiny("gpt2", **NOISY),
    "outside attention": lambda tiny: tiny("gpt2", resid_pdrop=0.2),
    "of attention in a window": lambda tiny: tiny("mistral", attention_dropout=0.3),
    "of adapters": lambda tiny: adapted(tiny("llama")),
    "of layers that are checkpointed": lambda tiny: tiny("bloom", hidden_dropout=0.3),
}


@pytest.mark.parametrize(
    ("where", "keep"),
    [
        *[(where, "hidden+attention") for where in MODELS],
        *itertools.product(("everywhere", "of adapters"), ("hidden", "hidden+kv")),
    ],
)
def test_gradients_with_dropout_are_those_of_the_loss_that_was_computed(where, keep, tiny, batch):
    model, data, step = MODELS[where](tiny).train(), batch(), 1e-6
    with Widened():  # differences so small would drown in the families' own casts
        first = streamed_loss(model, data, 4, keep=keep)[0]
        generator = torch.Generator().manual_seed(3)
        along = [
            torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()
        ]
        slope = sum((p.grad * d).sum() for p, d in zip(model.parameters(), along, strict=True))
        sides = []
        for sign in (1, -1):
            moved = copy.deepcopy(model)
            with torch.no_grad():
                for p, d in zip(moved.parameters(), along, strict=True):
                    p.add_(d, alpha=sign * step)
                sides.append(streamed_loss(moved, data, 4, backward=False)[0])
    assert (sides[0] - first).abs() < 0.1  # the same masks
    torch.testing.assert_close(slope, (sides[0] - sides[1]) / (2 * step), rtol=1e-5, atol=1e-5)


def test_the_backward_pass_leaves_the_generators_alone(tiny, batch):
    assert streamed_loss(tiny("gpt2", **NOISY).train(), batch(), 4)[1]

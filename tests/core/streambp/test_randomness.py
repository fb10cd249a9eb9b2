"""Dropout: both passes draw the same masks, and generators move on as in one plain pass."""

import copy

import torch

from core.streambp import attach, plain, token_logps

NOISY = {"resid_pdrop": 0.2, "embd_pdrop": 0.1, "attn_pdrop": 0.3}


def streamed_loss(model, data, chunk, *, backward=True):
    """The loss from seed 5; says too whether the backward pass left the generators alone."""
    with attach(model, chunk_tokens=chunk):
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


def test_gradients_with_dropout_are_those_of_the_loss_that_was_computed(tiny, batch):
    model, data, step = tiny("gpt2", **NOISY).train(), batch(), 1e-6
    streamed_loss(model, data, 4)
    generator = torch.Generator().manual_seed(3)
    along = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in model.parameters()]
    slope = sum((p.grad * d).sum() for p, d in zip(model.parameters(), along, strict=True))
    sides = []
    for sign in (1, -1):
        moved = copy.deepcopy(model)
        with torch.no_grad():
            for p, d in zip(moved.parameters(), along, strict=True):
                p.add_(d, alpha=sign * step)
            sides.append(streamed_loss(moved, data, 4, backward=False)[0])
    measured = (sides[0] - sides[1]) / (2 * step)
    torch.testing.assert_close(slope, measured, rtol=1e-6, atol=1e-6)


def test_the_backward_pass_leaves_the_generators_alone(tiny, batch):
    assert streamed_loss(tiny("gpt2", **NOISY).train(), batch(), 4)[1]

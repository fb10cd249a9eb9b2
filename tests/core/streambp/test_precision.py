"""Autocast and narrow parameters: the same casts in both passes, long sums in float32."""

import copy
import itertools
from contextlib import ExitStack

import pytest
import torch

from core.streambp import attach, plain, token_logps
from core.streambp.inner import GradientSums
from core.streambp.keys import HeldKeys


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_of_the_forward_pass_holds_in_the_backward_pass(inside, tiny, batch):
    model, data = tiny("llama").float(), batch()
    other = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        want = plain.token_logps(other, data.ids_BT, data.targets_BT, data.layout)
    (want * data.weight_BT).sum().backward()
    with attach(model, chunk_tokens=4), ExitStack() as outer:
        outer.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        if not inside:
            outer.close()
        (logp * data.weight_BT).sum().backward()
    assert logp.dtype == torch.float32
    for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
        assert p.grad.dtype == torch.float32
        assert (p.grad - q.grad).norm() < 0.1 * q.grad.norm(), name


def test_a_backward_pass_outside_autocast_repeats_the_casts_to_the_bit(tiny, batch):
    model, data, runs = tiny("llama").float(), batch(), []
    with attach(model, chunk_tokens=4):
        for inside in (True, False):
            model.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logp = token_logps(
                    model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4
                )
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=inside):
                (logp * data.weight_BT).sum().backward()
            runs.append([p.grad for p in model.parameters()])
    assert all(itertools.starmap(torch.equal, zip(*runs, strict=True)))


def test_small_shares_are_not_lost_in_long_sums():
    weight = torch.zeros(1, dtype=torch.bfloat16, requires_grad=True)
    sums = GradientSums([weight])
    held = HeldKeys(1)
    held.write(0, *[torch.zeros(1, 1, 1, 1, dtype=torch.bfloat16)] * 2)
    for _ in range(1024):
        share = torch.ones(1, dtype=torch.bfloat16)
        sums.shares_of([weight * share], [], [torch.ones_like(share)])
        held.add_grads((slice(None),) * 3, share.view(1, 1, 1, 1), None)
    assert sums.totals()[0].item() == 1024  # in bfloat16 the sum would stop at 256
    assert held.grads(0, 1)[0].item() == 1024


def test_bfloat16_models_get_bfloat16_gradients_near_the_exact_ones(tiny, batch, plain_run):
    model, data = tiny("llama").bfloat16(), batch()
    want = plain_run(copy.deepcopy(model).double(), data)[1]
    with attach(model, chunk_tokens=2):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        (logp * data.weight_BT).sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.dtype == torch.bfloat16
        assert (p.grad - want[name]).norm() < 0.15 * want[name].norm(), name


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt2"])
def test_autocast_streamed_is_as_near_to_the_exact_gradient_as_unstreamed(
    family, tiny, batch, plain_run
):
    model, data = tiny(family).float(), batch(40, (40, 33))
    exact = plain_run(copy.deepcopy(model).double(), data)[1]

    def off(grads):
        errors = [(grads[name] - want).norm() for name, want in exact.items()]
        return float(torch.stack(errors).norm())

    with torch.autocast("cpu", dtype=torch.bfloat16):
        unstreamed = off(plain_run(model, data)[1])
    # Attached outside: a layer is tried in its own precision.
    with attach(model, chunk_tokens=7) as attached:
        assert {layer.status for layer in attached.layers} == {"streamed"}
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logp = token_logps(
                model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=9
            )
        (logp * data.weight_BT).sum().backward()
    streamed = off({name: p.grad for name, p in model.named_parameters()})
    assert 0 < streamed < 1.2 * unstreamed


def test_a_model_attached_inside_autocast_is_streamed_too(tiny):
    model = tiny("llama").float()
    with torch.autocast("cpu", dtype=torch.bfloat16), attach(model, chunk_tokens=4) as attached:
        assert {layer.status for layer in attached.layers} == {"streamed"}

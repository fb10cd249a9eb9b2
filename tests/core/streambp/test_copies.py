"""Attached, copied, detached and attached again: a model is always one thing or the other."""

import copy
import functools

import pytest
import torch

from core.streambp import attach, token_logps
from core.streambp.attach import attachment_of


def scores(model, data):
    return token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)


def test_a_copy_of_an_attached_model_can_be_detached(tiny, batch):
    model, data = tiny("llama"), batch()
    want = model(input_ids=data.ids_BT).logits
    with attach(model, chunk_tokens=4):
        copied = copy.deepcopy(model)
        attachment_of(copied).detach()
        assert torch.equal(copied(input_ids=data.ids_BT).logits, want)
        assert scores(model, data).requires_grad  # the original is attached as before


def test_a_copy_stays_attached_when_the_original_is_detached(tiny, batch, streamed_run):
    model, data = tiny("llama"), batch()
    want = streamed_run(model, data, 4)[0]
    with attach(model, chunk_tokens=4):
        copied = copy.deepcopy(model)
    assert torch.equal(scores(copied, data), want)
    assert attachment_of(copied).model is copied


@pytest.mark.parametrize("keep", ["hidden+attention", "hidden+kv"])
def test_a_model_can_be_attached_again_with_another_policy(
    keep, tiny, batch, plain_run, assert_same
):
    model, data = tiny("qwen3"), batch()
    attach(model, chunk_tokens=5).detach()
    with attach(model, chunk_tokens=3, keep=keep) as attached:
        assert {layer.status for layer in attached.layers} == {"streamed"}
        logp = scores(model, data)
        (logp * data.weight_BT).sum().backward()
    got = {name: p.grad for name, p in model.named_parameters()}
    assert_same((logp.detach(), got), plain_run(tiny("qwen3"), data), 1e-6)


def test_a_forward_that_was_somebody_elses_is_put_back(tiny, batch):
    model, data, calls = tiny("llama"), batch(), []
    layer = model.model.layers[0]
    stock = layer.forward

    @functools.wraps(stock)
    def patched(*args, **given):
        calls.append(1)
        return stock(*args, **given)

    layer.forward = patched
    with attach(model, chunk_tokens=4) as attached:
        assert attached.layers[0].status == "streamed"
        calls.clear()
        scores(model, data).sum().backward()
        assert calls
    assert layer.forward is patched


def test_an_error_inside_the_block_detaches_and_a_second_detach_is_harmless(tiny, batch):
    model, data = tiny("llama"), batch()
    want = model(input_ids=data.ids_BT).logits
    with pytest.raises(KeyError), attach(model, chunk_tokens=4) as attached:
        raise KeyError
    attached.detach()
    assert torch.equal(model(input_ids=data.ids_BT).logits, want)


def test_an_old_attachment_has_nothing_left_to_put_back(tiny, batch):
    model, data = tiny("llama"), batch()
    old = attach(model, chunk_tokens=4)
    old.detach()
    with attach(model, chunk_tokens=4):
        old.detach()
        assert scores(model, data).requires_grad

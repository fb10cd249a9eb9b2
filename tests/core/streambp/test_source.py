"""What the embedding gave the first layer is looked up again, unless something was done to it."""

import copy
import weakref

import pytest
import torch

from core.streambp import attach, token_logps

CASTS = 1e-6  # their norms compute in float32
FAMILIES = {"llama": True, "gemma3_text": False}  # the latter scales its rows


def rows_left(model, data):
    """Say whether the embedding's answer outlives the forward pass, for the backward to come."""
    made = []
    hook = model.get_input_embeddings().register_forward_hook(
        lambda _module, _args, out: made.append(weakref.ref(out))
    )
    with attach(model, chunk_tokens=4):
        made.clear()
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8)
        left = made[0]() is not None
        logp.sum().backward()
    hook.remove()
    return left


def test_rows_of_the_embedding_are_not_kept_by_the_first_layer(tiny, batch):
    assert not rows_left(tiny("llama"), batch())


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_stay_exact(family, frozen, tiny, batch, streamed_run, plain_run, assert_same):
    model, data = tiny(family), batch()
    model.get_input_embeddings().weight.requires_grad_(not frozen)
    for chunk in (1, 3, 13):
        assert_same(streamed_run(model, data, chunk), plain_run(model, data), CASTS)


def in_place(_module, _args, out):
    with torch.no_grad():
        out *= 3


def anew(_module, _args, out):
    return out * 3


@pytest.mark.parametrize("noise", [in_place, anew])
def test_what_a_hook_makes_of_the_rows_is_kept(
    noise, tiny, batch, streamed_run, plain_run, assert_same
):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    want = plain_run(model, data)
    model.get_input_embeddings().register_forward_hook(noise)
    got = streamed_run(model, data, 4)
    assert_same(got, plain_run(model, data), CASTS)
    assert not torch.allclose(got[0], want[0])


def test_a_table_that_changed_before_the_backward_pass_is_refused(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8)
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            logp.sum().backward()


def test_a_disk_gets_nothing_of_them(tiny, batch, tmp_path, streamed_run, assert_same):
    model, data = tiny("llama", num_hidden_layers=1), batch()
    policy = {"store": "disk", "folder": tmp_path}
    want = streamed_run(copy.deepcopy(model), data, 4)
    assert_same(streamed_run(model, data, 4, policy=policy), want, 0)

"""A weight is settled once all of its gradient has come, and not before the layers above it."""

import copy

import pytest
import torch

from core.streambp import attach, backward_linear

LAYERS = ("model.layers.1.", "model.layers.0.")


def settled_run(model, data, settle=None, spoilt=None):
    """Names of weights in the order in which they were settled, with their gradients then.

    `spoilt`: a weight that is made infinite once the model is attached.
    """
    names, found = {p: name for name, p in model.named_parameters()}, {}

    def keep(param):
        assert names[param] not in found, "settled twice"
        found[names[param]] = param.grad
        param.grad = None

    with attach(model, chunk_tokens=4):
        if spoilt is not None:
            spoilt.data[0, 0] = float("inf")
        backward_linear(
            model, data.ids_BT, data.targets_BT, data.layout, data.weight_BT, head_chunk_tokens=8,
            settle=settle or keep,
        )  # fmt: skip
    return found


def whole_run(model, data):
    settled_run(model, data, settle=lambda _: None)
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("tied", [False, True])
def test_head_then_layers_from_the_last_then_table(tied, tiny, batch):
    model, data = tiny("qwen2", tie_word_embeddings=tied), batch()
    want = whole_run(copy.deepcopy(model), data)
    found = settled_run(model, data)
    left = {name for name, p in model.named_parameters() if p.grad is not None}
    assert left == {"model.norm.weight"}  # the head runs it tile by tile, in autograd's sight
    assert set(found) | left == set(want)
    for name, grad in found.items():
        torch.testing.assert_close(grad, want[name], rtol=0, atol=0)
    order = list(found)
    if not tied:
        assert order[0] == "lm_head.weight"
    assert order[-1] == "model.embed_tokens.weight"  # a tied one waits for both
    layers = [name for name in order if name.startswith("model.layers.")]
    later = [name.startswith(LAYERS[0]) for name in layers]
    assert later == sorted(later, reverse=True)
    assert any(later)
    assert not all(later)


def test_no_gradient_of_a_layer_above_is_there_when_one_is_settled(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    seen = []

    def step(param):
        param.grad = None
        seen.append(sum(p.grad is not None for p in model.parameters()))

    settled_run(model, data, settle=step)
    one_layer = len(list(model.model.layers[0].parameters()))
    assert max(seen) <= one_layer  # the norm's comes at the end


def test_stepping_while_the_pass_goes_on_gives_the_weights_of_a_step_afterwards(tiny, batch):
    model, data = tiny("llama"), batch()
    after = copy.deepcopy(model)
    for name, grad in whole_run(after, data).items():
        after.get_parameter(name).data.sub_(grad, alpha=0.1)

    def step(param):
        param.data.sub_(param.grad, alpha=0.1)
        param.grad = None

    settled_run(model, data, settle=step)
    for param in model.parameters():
        if param.grad is not None:
            step(param)
    for name, param in model.named_parameters():
        assert torch.equal(param, after.get_parameter(name)), name


def test_a_layer_that_stands_twice_is_left_to_the_end(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    model.model.layers[1] = model.model.layers[0]
    want = whole_run(copy.deepcopy(model), data)
    found = settled_run(model, data)
    assert not any(name.startswith("model.layers.") for name in found)
    for name, param in model.named_parameters():
        torch.testing.assert_close(found.get(name, param.grad), want[name], rtol=0, atol=0)


def test_a_weight_that_autograd_serves_elsewhere_is_left_to_the_end(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=True), batch()
    model.lm_head.register_forward_hook(lambda *_: None)  # the head goes through autograd
    want = whole_run(copy.deepcopy(model), data)
    found = settled_run(model, data)
    assert "model.embed_tokens.weight" not in found
    torch.testing.assert_close(
        model.get_input_embeddings().weight.grad, want["model.embed_tokens.weight"]
    )


def test_watched_weights_and_frozen_ones_are_never_settled(tiny, batch):
    model, data = tiny("llama"), batch()
    watched, frozen = (
        model.model.layers[0].mlp.up_proj.weight,
        model.model.layers[1].mlp.up_proj.weight,
    )
    watched.register_hook(lambda _: None)
    frozen.requires_grad_(False)
    found = settled_run(model, data)
    assert not {"model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"} & set(
        found
    )
    assert watched.grad is not None
    assert frozen.grad is None


def test_nothing_is_settled_where_a_log_probability_is_not_finite(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    assert settled_run(model, data, spoilt=model.lm_head.weight) == {}


def test_narrow_weights_with_wide_gradients_are_summed_in_them(tiny, batch):
    model, data = tiny("qwen2").bfloat16(), batch()
    data.weight_BT.div_(10)
    wide = copy.deepcopy(model).float()
    for param in model.parameters():
        param.grad_dtype = torch.float32
    found = settled_run(model, data)
    want = settled_run(wide, data)
    assert found.keys() == want.keys()
    for name, grad in found.items():
        assert grad.dtype == torch.float32
        error = float((grad - want[name]).norm() / want[name].norm())
        assert error < 0.1, name

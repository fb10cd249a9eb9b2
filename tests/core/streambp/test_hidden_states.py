"""Hidden states that a loop holds on to are values like any other: right, and left alone."""

import copy

import pytest
import torch

from core.streambp import attach, token_logps


def held(model, data, streamed, keep="hidden"):
    """Values of all hidden states before and after the backward pass, and their gradients."""
    model = copy.deepcopy(model)
    if streamed:
        attach(model, chunk_tokens=4, keep=keep)
    out = model(input_ids=data.ids_BT, output_hidden_states=True, use_cache=False)
    for hidden_BTD in out.hidden_states:
        hidden_BTD.retain_grad()
    before = [hidden_BTD.detach().clone() for hidden_BTD in out.hidden_states]
    # The second term has a gradient of its own for a state between two layers.
    loss = (out.logits.tanh() * data.weight_BT[..., None]).sum() + out.hidden_states[1].sin().sum()
    loss.backward()
    return before, list(out.hidden_states), [x.grad for x in out.hidden_states], model


@pytest.mark.parametrize("keep", ["hidden", "hidden+attention", "hidden+kv"])
@pytest.mark.parametrize("family", ["gpt2", "gemma2"])
def test_hidden_states_and_their_gradients_are_the_stock_models(family, keep, tiny, batch):
    model, data = tiny(family), batch(13, (13, 13))
    before, after, grads, ours = held(model, data, True, keep)
    _, want, want_grads, stock = held(model, data, False)
    for now, then, other in zip(after, before, want, strict=True):
        assert torch.equal(now, then)
        torch.testing.assert_close(now, other, rtol=1e-6, atol=1e-6)
    for grad, other in zip(grads, want_grads, strict=True):
        torch.testing.assert_close(grad, other, rtol=1e-5, atol=1e-5)
    for p, q in zip(ours.parameters(), stock.parameters(), strict=True):
        assert (p.grad - q.grad).norm() <= 1e-5 * q.grad.norm()


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradients_that_a_hook_has_seen_are_not_written_over(family, tiny, batch):
    model, data, seen = tiny(family), batch(), []

    def on_grad(grad):
        seen.append((grad, grad.clone()))

    def on_layer(_module, _args, out):
        (out if isinstance(out, torch.Tensor) else out[0]).register_hook(on_grad)

    with attach(model, chunk_tokens=4) as attached:
        for report in attached.layers:
            attached.decoder.get_submodule(report.name).register_forward_hook(on_layer)
        token_logps(
            model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4
        ).sum().backward()
    assert len(seen) == len(attached.layers)
    assert all(torch.equal(held, copied) for held, copied in seen)


def test_a_gradient_that_is_handed_in_is_not_written_over(tiny, batch):
    model, data = tiny("llama"), batch()
    weight = data.weight_BT.clone()
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        value = logp.detach().clone()
        logp.backward(weight)
    assert torch.equal(weight, data.weight_BT)
    assert torch.equal(logp, value)


def test_hidden_states_hooked_out_of_a_layer_outlive_the_graph(tiny, batch):
    model, data, kept = tiny("mistral"), batch(), []
    model.model.layers[0].register_forward_hook(lambda _m, _a, out: kept.append(out))
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
        (hidden_BTD,) = kept[-1:]
        value = hidden_BTD.detach().clone()
        logp.sum().backward()
    assert torch.equal(hidden_BTD, value)

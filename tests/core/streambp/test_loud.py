"""What streaming cannot give is an error in somebody's loop, never a wrong number."""

import copy
import functools

import pytest
import torch

from core.streambp import attach, plain, token_logps
from core.streambp.errors import LayerCallError


def scores(model, data):
    return token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)


@pytest.mark.parametrize("where", ["layer", "head"])
def test_a_weight_changed_between_the_passes_is_refused(where, tiny, batch):
    model, data = tiny("llama"), batch()
    part = model.lm_head if where == "head" else model.model.layers[0].mlp.up_proj
    with attach(model, chunk_tokens=4):
        loss = scores(model, data).exp().sum()
        with torch.no_grad():
            part.weight.mul_(1.01)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("trained", ["", "layers", "norm", "lm_head"])
def test_a_second_derivative_is_refused(trained, tiny, batch):
    model, data = tiny("llama"), batch()
    for name, p in model.named_parameters():
        p.requires_grad_(trained in name)
    params = [p for p in model.parameters() if p.requires_grad]
    with attach(model, chunk_tokens=4):
        loss = (scores(model, data) * data.weight_BT).sum()
        grads = torch.autograd.grad(loss, params, create_graph=True)
        with pytest.raises(RuntimeError):
            sum(g.square().sum() for g in grads).backward()


def test_attaching_draws_nothing_and_leaves_modes_and_gradients(tiny):
    model = tiny("qwen3_next").train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    before = torch.get_rng_state()
    with attach(model, chunk_tokens=4):
        assert torch.equal(torch.get_rng_state(), before)
        assert [module.training for module in model.modules()] == modes
        assert all(p.grad is None for p in model.parameters())


def steered(layer, steer):
    layer.mlp.register_forward_hook(lambda _module, _args, out: out + steer)


def test_a_leaf_that_a_hook_brings_into_a_layer_gets_its_gradient(tiny, batch):
    model, data = tiny("llama"), batch()
    steer = torch.zeros(32, dtype=torch.float64, requires_grad=True)
    steered(model.model.layers[0], steer)
    plain.token_logps(model, data.ids_BT, data.targets_BT, data.layout).sum().backward()
    want, steer.grad = steer.grad, None
    with attach(model, chunk_tokens=4) as attached:
        assert [report.status for report in attached.layers] == ["checkpointed", "streamed"]
        assert "a tensor of shape (32,)" in attached.layers[0].reason
        scores(model, data).sum().backward()
    torch.testing.assert_close(steer.grad, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("keep", ["hidden", "hidden+attention"])
def test_one_that_comes_after_attaching_is_refused(keep, tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4, keep=keep):
        scores(model, data).sum().backward()
        steered(model.model.layers[0], torch.zeros(32, dtype=torch.float64, requires_grad=True))
        with pytest.raises(LayerCallError, match="register it"):
            scores(model, data).sum().backward()


@pytest.mark.parametrize("configured", [False, True])
def test_the_loss_of_a_router_trains_it_or_is_refused(configured, tiny, batch, assert_same):
    """Known when the model is attached, it is trained as by autograd; asked for later, refused."""
    words = {"router_aux_loss_coef": 1.0, "output_router_logits": configured}
    model, data, runs = tiny("mixtral", **words), batch(13, (13,)), []
    for streamed in (False, True):
        ours = copy.deepcopy(model)
        given = {"input_ids": data.ids_BT, "labels": data.targets_BT, "use_cache": False}
        if streamed:
            attach(ours, chunk_tokens=4)
        if streamed and not configured:
            with pytest.raises(LayerCallError, match="output_router_logits"):
                ours(**given, output_router_logits=True)
            return
        loss = ours(**given, output_router_logits=True).loss
        loss.backward()
        runs.append((loss.detach(), {name: p.grad for name, p in ours.named_parameters()}))
    assert_same(runs[1], runs[0], 1e-5)


def gated(layer, gate):
    """The layer with its output times `gate`, which reaches it as an argument."""
    stock = type(layer)

    class Gated(stock):
        @functools.wraps(stock.forward)
        def forward(self, *args, gate, **given):
            return super().forward(*args, **given) * gate

    layer.__class__ = Gated
    layer.register_forward_pre_hook(
        lambda _m, args, given: (args, {**given, "gate": gate}), with_kwargs=True
    )


def test_an_argument_that_wants_gradient_gets_it_or_the_layer_is_not_streamed(tiny, batch):
    model, data = tiny("llama"), batch()
    gate = torch.ones(32, dtype=torch.float64, requires_grad=True)
    gated(model.model.layers[0], gate)
    plain.token_logps(model, data.ids_BT, data.targets_BT, data.layout).sum().backward()
    want, gate.grad = gate.grad, None
    with attach(model, chunk_tokens=4):
        scores(model, data).sum().backward()
    assert gate.grad is not None
    torch.testing.assert_close(gate.grad, want, rtol=1e-6, atol=1e-6)

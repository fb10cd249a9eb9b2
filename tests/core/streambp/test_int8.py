"""Int8 weights stream: the gradients of the values they stand for, and one layer's form at a time."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from core.optim.int8 import Int8Weight
from core.optim.int8_model import quantise_model
from core.streambp import attach, backward_linear, token_logps
from core.streambp.ledger import unwatched

FAMILIES = {
    "llama": {},
    "qwen2": {},  # tied, with biases
    "gpt_oss": {},  # fused experts
    "gemma2": {},  # a capped head
    "qwen3_next": {},  # recurrent, with a convolution
    "gpt2": {},  # Conv1D, positions
}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-6, torch.bfloat16: 2e-2}


def two(model, dtype=torch.float64):
    """The model with int8 weights, and a copy with the values that they stand for."""
    int8 = model.to(dtype)
    quantise_model(int8, group=8)
    plain = copy.deepcopy(int8)
    for module in plain.modules():
        for name, param in list(module._parameters.items()):
            if isinstance(param, Int8Weight):
                module._parameters[name] = nn.Parameter(param.dequantised())
    plain.tie_weights()
    return int8, plain


def two_passes(model, data):
    logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=5)
    (logp * data.weight_BT).sum().backward()
    return logp.detach()


def one_pass(model, data):
    return backward_linear(
        model, data.ids_BT, data.targets_BT, data.layout, data.weight_BT, head_chunk_tokens=5
    )


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def compared(run, models, data, assert_same, tolerance, **options):
    answers = []
    for model in models:
        with attach(model, **{"chunk_tokens": 4, **options}) as attached:
            assert {layer.status for layer in attached.layers} == {"streamed"}
            answers.append((run(model, data), gradients(model)))
    assert {type(g) for g in answers[0][1].values()} == {torch.Tensor}
    assert_same(*answers, tolerance)
    for parameter in models[0].parameters():
        if isinstance(parameter, Int8Weight):
            assert (parameter.held.users, parameter.held.form) == (0, None)


@pytest.mark.parametrize("run", [two_passes, one_pass])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_dequantised_model(family, run, tiny, batch, assert_same):
    models = two(tiny(family))
    compared(run, models, batch(), assert_same, 1e-10)


@pytest.mark.parametrize("run", [two_passes, one_pass])
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_they_are_in_every_compute_dtype(dtype, run, tiny, batch, assert_same):
    data = batch()
    data = replace(data, weight_BT=data.weight_BT.to(torch.promote_types(dtype, torch.float32)))
    models = two(tiny("qwen2"), dtype)
    compared(run, models, data, assert_same, TOLERANCE[dtype])


@pytest.mark.parametrize(
    "options", [{"keep": "hidden+attention"}, {"keep": "hidden+kv"}, {"chunk_tokens": 1}], ids=str
)
def test_they_are_under_every_policy(options, tiny, batch, assert_same):
    compared(two_passes, two(tiny("llama")), batch(), assert_same, 1e-10, **options)


def test_frozen_int8_weights_pass_gradients_on(tiny, batch, assert_same):
    models = two(tiny("llama"))
    for model in models:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("norm" in name or ".0.mlp" in name)
    compared(one_pass, models, batch(), assert_same, 1e-10)
    assert not any("embed" in name for name in gradients(models[0]))


def test_gradients_go_straight_where_nobody_watches(tiny, batch):
    int8, _ = two(tiny("llama"))
    weight = int8.model.layers[0].mlp.up_proj.weight
    assert unwatched(weight)
    weight.grad = torch.zeros(weight.shape, dtype=torch.float64)
    place = weight.grad.data_ptr()
    with attach(int8, chunk_tokens=4):
        one_pass(int8, batch())
    assert weight.grad.data_ptr() == place
    assert weight.grad.any()


class Made:
    """Notes how often each weight was dequantised, and how many are held at once at most."""

    def __init__(self, monkeypatch, model):
        self.counts, self.most, original = {}, 0, Int8Weight.dequantised
        weights = [p for p in model.parameters() if isinstance(p, Int8Weight)]
        names = {
            id(p.codes): name for name, p in model.named_parameters() if isinstance(p, Int8Weight)
        }

        def noted(weight, dtype=None):
            name = names[id(weight.codes)]
            self.counts[name] = self.counts.get(name, 0) + 1
            self.most = max(self.most, 1 + sum(w.held.form is not None for w in weights))
            return original(weight, dtype)

        monkeypatch.setattr(Int8Weight, "dequantised", noted)


@pytest.mark.parametrize("run", [two_passes, one_pass])
def test_a_walk_dequantises_a_weight_once_and_no_two_layers_at_a_time(
    run, tiny, batch, monkeypatch
):
    int8, _ = two(tiny("llama"))
    with attach(int8, chunk_tokens=2):  # trying the layers is not counted
        made = Made(monkeypatch, int8)
        run(int8, batch())
    of_layers = {name: n for name, n in made.counts.items() if ".layers." in name}
    assert set(of_layers.values()) == {2}  # forward and backward, for seven chunks each
    assert made.counts["lm_head.weight"] == (1 if run is one_pass else 2)
    assert "model.embed_tokens.weight" not in made.counts  # only rows of it are
    assert made.most <= 7  # matrices of one layer

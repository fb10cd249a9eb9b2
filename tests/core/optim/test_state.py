"""Stopping and going on: bit for bit, by name, in a file that loads safely."""

import copy
import io

import pytest
import torch
from torch import Tensor

from core.optim import APOLLO_MINI, Apollo, Scale, StateMismatchError

KINDS = {
    "apollo": (Apollo, {"rank": 2, "update_proj_gap": 3}),
    "rademacher": (Apollo, {"rank": 2, "update_proj_gap": 3, "projection": "rademacher"}),
    "svd": (Apollo, {"rank": 2, "update_proj_gap": 3, "projection": "svd"}),
    "mini": (Apollo, {**APOLLO_MINI, "update_proj_gap": 3}),
    "scale": (Scale, {"momentum": 0.9}),
    "scale without momentum": (Scale, {}),
}
ALL = pytest.mark.parametrize("kind", KINDS)


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_same_bits(left, right):
    for one, other in zip(left.parameters(), right.parameters(), strict=True):
        assert torch.equal(one, other)


def optimizer_of(kind, model):
    made, options = KINDS[kind]
    return made(model.named_parameters(), lr=1e-2, **options)


def in_backward(model, optimizer):
    """Let each parameter step as soon as its gradient is there."""
    for param in model.parameters():
        param.register_post_accumulate_grad_hook(optimizer.step_parameter)
    optimizer.step = lambda: None


@ALL
def test_two_runs_have_the_same_bits(tiny_model, train, kind):
    models = [tiny_model() for _ in range(2)]
    for model in models:
        train(model, optimizer_of(kind, model), 0, 7)
    assert_same_bits(*models)


@ALL
@pytest.mark.parametrize("layerwise", [False, True], ids=["step", "in backward"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_run_stopped_and_resumed_has_the_bits_of_one_that_went_on(
    tiny_model, train, kind, layerwise, dtype
):
    def made(seed=0):
        model = tiny_model(seed=seed, dtype=dtype)
        optimizer = optimizer_of(kind, model)
        if layerwise:
            in_backward(model, optimizer)
        return model, optimizer

    whole, optimizer = made()
    train(whole, optimizer, 0, 8)
    first, stopped = made()
    train(first, stopped, 0, 4)  # in the middle of a projection's life
    saved = through_a_file({"model": first.state_dict(), "optimizer": stopped.state_dict()})
    second, resumed = made(seed=1)
    second.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    train(second, resumed, 4, 8)
    assert_same_bits(whole, second)


def test_a_state_dict_comes_back_bit_for_bit(tiny_model, apollo, train):
    model = tiny_model(dtype=torch.bfloat16)
    optimizer = apollo(model)
    train(model, optimizer, 0, 3)
    other = apollo(tiny_model(dtype=torch.bfloat16))
    other.load_state_dict(through_a_file(optimizer.state_dict()))
    before, after = optimizer.state_dict(), other.state_dict()
    assert before["param_groups"] == after["param_groups"]
    for index, state in before["state"].items():
        for field, value in state.items():
            again = after["state"][index][field]
            assert torch.equal(value, again) if isinstance(value, Tensor) else value == again
            assert type(value) is type(again)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@ALL
def test_state_is_float32_tensors_and_whole_numbers_under_any_weights(
    tiny_model, train, kind, dtype
):
    model = tiny_model(dtype=dtype)
    optimizer = optimizer_of(kind, model)
    train(model, optimizer, 0, 2)
    for state in optimizer.state.values():
        for value in state.values():
            assert type(value) is int or (type(value) is Tensor and value.dtype == torch.float32)


def test_float64_weights_keep_float64_moments(tiny_model, apollo, train):
    model = tiny_model(dtype=torch.float64)
    optimizer = apollo(model)
    train(model, optimizer, 0, 1)
    assert {state["exp_avg"].dtype for state in optimizer.state.values()} == {torch.float64}


def test_state_is_of_the_rank_s_size(tiny_model, apollo, train):
    model = tiny_model()
    optimizer = apollo(model, rank=2)
    train(model, optimizer, 0, 1)
    assert optimizer.state[model.up.weight]["exp_avg"].shape == (10, 2)
    assert optimizer.state[model.down.weight]["exp_avg"].shape == (8, 2)
    assert optimizer.state[model.experts]["exp_avg"].shape == (3, 10, 2)
    assert optimizer.state[model.experts]["last_norm"].shape == (3, 1, 1)


def test_another_parameter_order_is_sorted_out_by_name(tiny_model, apollo, train):
    model, twin = tiny_model(), tiny_model()
    optimizer = apollo(model)
    train(model, optimizer, 0, 3)
    twin.load_state_dict(model.state_dict())
    reordered = Apollo(reversed(list(twin.named_parameters())), lr=1.0)
    reordered.load_state_dict(through_a_file(optimizer.state_dict()))
    train(model, optimizer, 3, 6)
    train(twin, reordered, 3, 6)
    assert_same_bits(model, twin)


def without_names(state):
    for group in state["param_groups"]:
        del group["param_names"]


def with_another_name(state):
    state["param_groups"][0]["param_names"][0] = "elsewhere"


def with_another_rank(state):
    state["param_groups"][0]["rank"] = 3


def with_a_field_less(state):
    del state["state"][0]["last_norm"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (without_names, "param_names"),
        (with_another_name, "missing parameters"),
        (with_another_rank, r"exp_avg = \(\(3, 10, 2\), torch.float32\)"),
        (with_a_field_less, "expected"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(
    tiny_model, apollo, train, spoil, told
):
    model = tiny_model()
    optimizer = apollo(model)
    train(model, optimizer, 0, 2)
    before = copy.deepcopy(optimizer.state_dict())
    saved = copy.deepcopy(before)
    spoil(saved)
    with pytest.raises(StateMismatchError, match=told):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert torch.equal(after["state"][0]["exp_avg"], before["state"][0]["exp_avg"])


def test_other_groups_over_the_same_names_are_refused(tiny_model, apollo):
    saved = apollo(tiny_model()).state_dict()
    named = list(tiny_model().named_parameters())
    split = Apollo([{"params": named[:2]}, {"params": named[2:]}], lr=1e-2)
    with pytest.raises(StateMismatchError, match="same groups"):
        split.load_state_dict(saved)

"""Stopping and going on: bit for bit, by name, in a file that loads safely."""

import copy
import io

import pytest
import torch
from torch import Tensor

from core.optim import APOLLO_MINI, Apollo, StateMismatchError

BOTH = pytest.mark.parametrize("options", [{}, APOLLO_MINI], ids=["apollo", "mini"])


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_same_bits(left, right):
    for one, other in zip(left.parameters(), right.parameters(), strict=True):
        assert torch.equal(one, other)


@BOTH
def test_two_runs_have_the_same_bits(tiny_model, apollo, train, options):
    models = [tiny_model() for _ in range(2)]
    for model in models:
        train(model, apollo(model, **options), 0, 7)
    assert_same_bits(*models)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_run_stopped_and_resumed_has_the_bits_of_one_that_went_on(
    tiny_model, apollo, train, options, dtype
):
    whole = tiny_model(dtype=dtype)
    train(whole, apollo(whole, **options), 0, 8)

    first = tiny_model(dtype=dtype)
    stopped = apollo(first, **options)
    train(first, stopped, 0, 4)  # in the middle of a projection's life
    saved = through_a_file({"model": first.state_dict(), "optimizer": stopped.state_dict()})

    second = tiny_model(seed=1, dtype=dtype)
    second.load_state_dict(saved["model"])
    resumed = apollo(second)
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
def test_state_is_float32_tensors_and_whole_numbers_under_any_weights(
    tiny_model, apollo, train, dtype
):
    model = tiny_model(dtype=dtype)
    optimizer = apollo(model)
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

"""The benchmark of optimizers: counts against real states, ratios of given figures, a whole toy run."""

import json
import sys

import pytest
import torch

from benchmarks import optimizer
from benchmarks.optimizer import (
    PROJECTION,
    RATIOS,
    StateDiffers,
    bare_projection,
    check_state,
    least_seconds,
    measured,
    optimizers_of,
    report_of,
)
from benchmarks.optimizer_shapes import (
    GIB,
    MODELS,
    config_of,
    counted_bytes,
    held_bytes,
    shapes_of,
)
from core.streambp.plan import meta_model


@pytest.fixture(scope="module")
def shapes():
    return shapes_of(config_of("toy"), GIB)


def whole_state(name):
    model = meta_model(config_of(name), torch.float32)
    return {kind: counted_bytes(one) for kind, one in optimizers_of(model, 256).items()}


@pytest.mark.parametrize("rank", [8, 256])
def test_what_is_counted_is_what_each_optimizer_then_holds(shapes, rank):
    for kind, one in optimizers_of(shapes.layers, rank).items():
        one.step()
        assert counted_bytes(one) == held_bytes(one), kind
        assert kind == "scale" or held_bytes(one) > 0
        check_state(kind, one)


def test_a_count_that_is_off_is_told(shapes):
    apollo = optimizers_of(shapes.layers, 8)["apollo"]
    apollo.step()
    first = next(iter(apollo.state.values()))
    first["exp_avg"] = first["exp_avg"][:-1]
    with pytest.raises(StateDiffers, match="apollo: counted"):
        check_state("apollo", apollo)


def test_on_the_7b_shapes_mini_holds_less_than_a_five_hundredth_of_adamw_s_state():
    state = whole_state("llama-7b")
    assert state["mini"] / state["adamw"] <= 0.002
    assert state["apollo"] / state["adamw"] < 0.07
    assert state["rademacher"] == state["apollo"]


@pytest.mark.parametrize(
    ("name", "billions"), [("qwen2.5-0.5b", 0.494), ("llama-1b", 1.236), ("llama-7b", 6.738)]
)
def test_the_shapes_have_the_published_number_of_parameters(name, billions):
    model = meta_model(config_of(name), torch.float32)
    assert sum(p.numel() for p in model.parameters()) / 1e9 == pytest.approx(billions, abs=5e-4)
    assert name in MODELS


def test_as_many_layers_as_the_memory_allows_and_never_none():
    layer_bytes = sum(p.numel() * 4 for p in shapes_of(config_of("toy"), 0).layers.parameters())
    counts = [
        shapes_of(config_of("toy"), memory).layer_count for memory in (0, 13 * layer_bytes, GIB)
    ]
    assert counts == [1, 2, 3]


def test_the_bare_product_takes_both_orientations(shapes, monkeypatch):
    seen = []
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(
        torch.Tensor, "__matmul__", lambda a, b: seen.append((a.shape, b.shape)) or product(a, b)
    )
    bare_projection(shapes.layers, 8)()
    assert (torch.Size([160, 64]), torch.Size([64, 8])) in seen
    assert (torch.Size([8, 64]), torch.Size([64, 160])) in seen
    assert len(seen) == 7 * shapes.layer_count


def test_every_step_is_taken_in_every_round_and_the_first_round_is_not_measured():
    taken = []
    steps = {kind: lambda kind=kind: taken.append(kind) for kind in "abc"}
    least = least_seconds(steps, 2)
    assert sorted(taken) == sorted("abc" * 3)
    assert taken[:6] == list("abcbca")
    assert all(0 <= seconds < 1 for seconds in least.values())


def test_ratios_are_ours_over_theirs(shapes):
    state = {"adamw": 1000, "apollo": 100, "rademacher": 100, "mini": 2, "scale": 10}
    seconds = {"adamw": 4.0, "apollo": 3.0, "rademacher": 2.5, "mini": 1.0, "scale": 0.5}
    ratios = report_of(shapes, state, seconds | {PROJECTION: 2.0})["ratios"]
    assert ratios.keys() == RATIOS.keys()
    assert ratios["state_ratio_mini_vs_adamw"] == 0.002
    assert ratios["step_time_ratio_mini_vs_adamw"] == 0.25
    assert ratios["step_time_ratio_apollo_vs_projection"] == 1.5


def test_a_model_that_is_not_known_is_refused_by_name():
    with pytest.raises(ValueError, match=r"'llama-9b': use one of qwen2\.5-0\.5b"):
        measured("llama-9b", 8, GIB, 1)


def test_the_command_prints_one_json_object(monkeypatch, capsys):
    words = ["--json", "--models", "toy", "--rounds", "1", "--rank", "8"]
    monkeypatch.setattr(sys, "argv", ["optimizer", *words])
    threads = torch.get_num_threads()
    optimizer.main()
    torch.set_num_threads(threads)
    report = json.loads(capsys.readouterr().out)
    assert report["models"]["toy"]["layers_stepped"] == 3
    assert (
        report["state_ratio_mini_vs_adamw"]
        == report["models"]["toy"]["ratios"]["state_ratio_mini_vs_adamw"]
    )
    assert all(report[ratio] > 0 for ratio in RATIOS)

"""Every word of an optimizer's spec reaches the optimizer, weight decay included."""

import pytest
import torch

from core.models.load import load_model
from core.optim import Apollo, Scale
from core.train.optimizer import build_optimizer

ADAM = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-5, "weight_decay": 0.25}
APOLLO = {"scale": 3.0, "update_proj_gap": 7, "projection": "rademacher"}


@pytest.fixture
def built(make_spec, toy_model):
    def build(**chosen):
        model = load_model(toy_model, torch.device("cpu"))
        spec = make_spec(trainer={"optimizer": chosen, "learning_rate": 0.5}, seed=11)
        return build_optimizer(spec, model)

    return build


@pytest.mark.parametrize(
    ("kind", "words", "rank", "scaling"),
    [("apollo", {"rank": 5}, 5, "channel"), ("apollo_mini", {}, 1, "tensor")],
)
def test_apollo_gets_its_words(built, kind, words, rank, scaling):
    optimizer = built(kind=kind, **ADAM, **APOLLO, **words)
    assert isinstance(optimizer, Apollo)
    group = optimizer.param_groups[0]
    assert group["kind"] == "low_rank"
    assert (group["rank"], group["scaling"], group["lr"], group["seed"]) == (rank, scaling, 0.5, 11)
    assert {name: group[name] for name in APOLLO} == APOLLO
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.95), 1e-5, 0.25)


def test_scale_gets_its_words(built):
    optimizer = built(kind="scale", momentum=0.6, **ADAM)
    assert isinstance(optimizer, Scale)
    groups = {group["kind"]: group for group in optimizer.param_groups}
    assert groups["head"]["momentum"] == 0.6
    assert groups["outputs_first"]["momentum"] is None
    for group in groups.values():
        assert (group["betas"], group["eps"], group["lr"]) == ((0.8, 0.95), 1e-5, 0.5)
        assert group["weight_decay"] == (0.0 if group["kind"] == "vector" else 0.25)


@pytest.mark.parametrize("kind", ["apollo", "apollo_mini", "scale", "adamw"])
def test_weight_decay_shrinks_a_matrix_that_has_no_gradient_of_its_own(built, kind):
    optimizer = built(kind=kind, weight_decay=0.25)
    param = next(p for group in optimizer.param_groups for p in group["params"] if p.ndim == 2)
    param.grad = torch.zeros_like(param)
    before = param.detach().clone()
    optimizer.step()
    torch.testing.assert_close(param.detach(), before * (1 - 0.5 * 0.25))

"""What the plan says of an optimizer is what the optimizer then holds."""

import pytest
import torch

from core.models.load import load_config, load_model
from core.streambp.plan import meta_model
from core.train.cost import step_cost
from core.train.optimizer import build_optimizer

OPTIMIZERS = [
    {"kind": "apollo_mini"},
    {"kind": "apollo_mini", "embeddings": "apollo"},
    {"kind": "apollo", "rank": 4},
    {"kind": "apollo", "rank": 4, "projection": "svd", "embeddings": "apollo"},
    {"kind": "scale"},
    {"kind": "adamw"},
    {"kind": "sgd"},
    {"kind": "sgd", "momentum": 0.9},
]


@pytest.mark.parametrize("chosen", OPTIMIZERS, ids=str)
def test_the_state_is_counted_to_the_byte(chosen, make_spec, toy_model):
    spec = make_spec(trainer={"optimizer": chosen})
    model = load_model(toy_model, torch.device("cpu"))
    optimizer = build_optimizer(spec, model)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = [x for state in optimizer.state.values() for x in state.values()]
    real = sum(x.numel() * x.element_size() for x in held if torch.is_tensor(x) and x.ndim)
    empty = meta_model(load_config(toy_model), torch.float32)
    assert step_cost(empty, spec.trainer.optimizer, foreach=False, rounded=False).state == real


def test_stepping_all_weights_at_once_needs_more_beside_them(make_spec, toy_model):
    chosen = make_spec(trainer={"optimizer": {"kind": "adamw"}}).trainer.optimizer
    empty = meta_model(load_config(toy_model), torch.float32)
    costs = [
        step_cost(empty, chosen, foreach=foreach, rounded=False).scratch
        for foreach in (True, False)
    ]
    weights = sum(p.numel() * 4 for p in empty.parameters())
    assert costs == [weights, max(p.numel() * 4 for p in empty.parameters())]

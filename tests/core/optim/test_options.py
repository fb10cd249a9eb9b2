"""A hyperparameter out of range, or one that nothing reads, is refused by name."""

import math

import pytest
import torch
from torch import nn

from core.optim import Apollo, OptionError, ParameterError

WRONG = {
    "lr": [-1e-3, math.nan, math.inf, "1e-3", None, True],
    "rank": [0, -1, 1.5, True, "8"],
    "scale": [0.0, -1.0, math.nan, None],
    "scaling": ["row", None],
    "projection": ["sketch", None, 3],
    "update_proj_gap": [0, -200, 2.5, math.inf],
    "betas": [(0.9,), (0.9, 1.0), (-0.1, 0.9), (0.9, math.nan), 0.9, (0.9, 0.9, 0.9)],
    "eps": [0.0, -1e-8, math.nan],
    "weight_decay": [-0.1, math.inf],
    "growth_limit": [0.99, -1.0, math.nan],
    "bias_correction": [1, None],
    "decay_after_update": ["yes"],
    "stochastic_rounding": [0],
    "seed": [-1, 2**63, 1.0],
}


def named():
    return [("w", nn.Parameter(torch.ones(3, 2)))]


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_name_as_default_and_in_a_group(field, value):
    with pytest.raises(OptionError, match=f"^{field} = ") as refusal:
        Apollo(named(), **({"lr": 1e-3} | {field: value}))
    assert refusal.value.field == field
    with pytest.raises(OptionError, match=f"^{field} = "):
        Apollo([{"params": named(), field: value}], lr=1e-3)


def test_a_misspelt_option_in_a_group_is_refused():
    with pytest.raises(OptionError, match=r"weightdecay = 0\.1: unknown option"):
        Apollo([{"params": named(), "weightdecay": 0.1}], lr=1e-3)


def test_a_wrong_value_in_a_saved_group_is_refused():
    optimizer = Apollo(named(), lr=1e-3)
    saved = optimizer.state_dict()
    saved["param_groups"][0]["update_proj_gap"] = 0
    with pytest.raises(OptionError, match="update_proj_gap = 0"):
        optimizer.load_state_dict(saved)


def test_a_torch_scheduler_may_keep_its_own_field_in_the_group():
    optimizer = Apollo(named(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5)
    assert scheduler.get_last_lr() == [5e-4]
    Apollo(named(), lr=1.0).load_state_dict(optimizer.state_dict())


def test_parameters_without_names_or_with_one_name_twice_are_refused():
    with pytest.raises(ParameterError, match="names seed"):
        Apollo([param for _, param in named()], lr=1e-3)
    with pytest.raises(ParameterError, match="name of its own"):
        Apollo(named() + named(), lr=1e-3)


def test_groups_that_one_optimizer_took_can_be_given_to_another():
    groups = [{"params": named()}]
    Apollo(groups, lr=1e-3, rank=1)
    assert Apollo(groups, lr=1e-2, rank=2).param_groups[0]["rank"] == 2

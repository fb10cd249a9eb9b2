"""The digest tells any two states apart, and one state the same however it is held."""

import pytest
import torch

from core.train.digest import state_digest

WEIGHTS = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(())}
STATE = {"step": 3, "list": [1.5, "x", None], "optimizer": {0: {"m": torch.zeros(2)}}}


def test_order_of_keys_layout_and_tuples_do_not_matter():
    weights = {"b": torch.ones(()), "a": torch.arange(6.0).view(2, 3).T.contiguous().T}
    state = {"optimizer": {0: {"m": torch.zeros(2)}}, "list": (1.5, "x", None), "step": 3}
    assert state_digest(weights, state) == state_digest(WEIGHTS, STATE)


@pytest.mark.parametrize(
    ("weights", "state"),
    [
        ({**WEIGHTS, "b": torch.tensor(-1.0)}, STATE),
        ({**WEIGHTS, "a": WEIGHTS["a"].view(3, 2)}, STATE),
        ({**WEIGHTS, "a": WEIGHTS["a"].bfloat16()}, STATE),
        ({"a": WEIGHTS["b"], "b": WEIGHTS["a"]}, STATE),
        ({"a": WEIGHTS["a"]}, STATE),
        (WEIGHTS, {**STATE, "step": 4}),
        (WEIGHTS, {**STATE, "step": 3.0}),
        (WEIGHTS, {**STATE, "list": [1.5, "x"]}),
        (WEIGHTS, {**STATE, "optimizer": {1: {"m": torch.zeros(2)}}}),
        (WEIGHTS, {**STATE, "more": []}),
    ],
)
def test_anything_else_does(weights, state):
    assert state_digest(weights, state) != state_digest(WEIGHTS, STATE)

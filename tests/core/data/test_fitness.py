"""Which files an objective can learn from."""

import pytest

from core.data.fitness import KIND_OF_SHAPE, objective_kinds, why_unfit

CONVERSATIONS = {"chat", "prompt_completion", "alpaca", "sharegpt"}


@pytest.mark.parametrize(
    ("objective", "shapes"),
    [
        ("pretrain", {"text", "tokens"}),
        ("sft", CONVERSATIONS | {"tokens"}),
        ("dpo", {"preference", "chosen_rejected"}),
        ("grpo", {"rft"}),
    ],
)
def test_an_objective_learns_from_its_own_shapes_and_refuses_the_rest(objective, shapes):
    assert objective_kinds(objective) == shapes
    fits = {shape for shape in KIND_OF_SHAPE if why_unfit(shape, objective) is None}
    assert fits == shapes


def test_a_misfit_is_told_with_the_way_out():
    misfit = why_unfit("preference", "sft", param="validation_file", name="pairs.jsonl")
    assert (misfit.code, misfit.param) == ("invalid_validation_file", "validation_file")
    assert "pairs.jsonl" in misfit.message
    assert "method.type 'supervised'" in misfit.message
    assert "method.type 'dpo'" in misfit.hint
    assert "chat" in misfit.hint

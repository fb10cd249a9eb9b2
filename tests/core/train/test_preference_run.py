"""Whole runs on files of preferences: they learn, resume to the bit, and say what they measured."""

import json
from math import log

import pytest
import torch

from core.spec.errors import RunFailure

STEPS = 3
METRICS = (
    "rewards_chosen",
    "rewards_rejected",
    "reward_margin",
    "reward_accuracy",
    "logp_chosen",
    "logp_rejected",
)


def lines(numbers):
    """An answer that ends in an even digit is the better one."""

    def row(number):
        prompt, chosen = f"{'n' * (number % 4)}?", f"{number}{2 * number % 10}"
        return {"prompt": prompt, "chosen": chosen, "rejected": f"{number}{(2 * number + 1) % 10}"}

    return "".join(json.dumps(row(number)) + "\n" for number in numbers)


@pytest.fixture
def preferences(make_spec, training_path, tmp_path):
    """A spec on 12 pairs and 10 held out; ``trainer`` and ``words`` of the objective win."""
    training_path.write_text(lines(range(12)))
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text(lines(range(20, 30)))

    def make(words=None, numbers=None, **trainer):
        trainer = {"objective": {"kind": "dpo", **(words or {})}, **trainer}
        numbers = {"batch_size": 5, **(numbers or {})}
        return make_spec(validation_file=str(held_out), hyperparameters=numbers, trainer=trainer)

    return make


def test_the_better_answers_of_held_out_pairs_become_the_likelier_ones(preferences, train):
    often = {"evaluation": {"every": 20}, "checkpoint": {"every": 20}}
    adamw = {"optimizer": {"kind": "adamw"}, "learning_rate": 3e-3}
    run = train(preferences(numbers={"n_epochs": 8}, max_steps=20, **adamw, **often))
    first, *_, last = (event.metrics for event in run.of("evaluated"))
    assert first["valid_reward_accuracy"] == 0.5
    assert first["full_valid_loss"] == pytest.approx(log(2), abs=1e-6)
    assert last["valid_reward_accuracy"] > 0.9
    assert last["full_valid_loss"] < first["full_valid_loss"]
    assert run.steps[20]["reward_accuracy"] > 0.9


def test_a_step_and_a_measurement_tell_the_same_figures(preferences, train):
    run = train(preferences(max_steps=1))
    (step,), measured = run.steps.values(), run.of("evaluated")[-1].metrics
    assert step["train_loss"] == pytest.approx(log(2), abs=1e-5)
    assert set(METRICS) < step.keys()
    assert measured.keys() == {"full_valid_loss", *(f"valid_{name}" for name in METRICS)}
    assert step["logp_chosen"] < 0 > measured["valid_logp_rejected"]


@pytest.mark.parametrize(
    "words", [{}, {"reference": "none", "length_normalised": True}], ids=["base", "none"]
)
def test_a_run_that_was_stopped_ends_with_the_bits_of_one_that_was_not(
    preferences, train, bit_equal, words
):
    spec = preferences(words)
    whole = train(spec, "whole")
    # Before the first step come three events.
    stopped = train(spec, "cut", stop_at=3 + STEPS + 1)
    assert stopped.events[-1].step == STEPS
    resumed = train(spec, "cut")
    assert resumed.steps == whole.steps
    assert bit_equal(resumed.weights, whole.weights)
    assert bit_equal(resumed.state, whole.state)
    reference = whole.state["lesson"]["reference"]
    shapes = {name: (tuple(x.shape), x.dtype) for name, x in reference.items()}
    kept = {"rows": ((12, 2), torch.float64), "held_out": ((10, 2), torch.float64)}
    assert shapes == ({} if words else kept)


def test_rows_that_are_no_preferences_are_refused_with_line_and_remedy(
    preferences, train, training_path
):
    training_path.write_text(json.dumps({"prompt": "a", "completion": "b"}) + "\n")
    with pytest.raises(RunFailure) as failure:
        train(preferences())
    assert failure.value.error.code == "invalid_training_file"
    assert "line 1" in failure.value.error.message
    assert "chosen" in failure.value.error.message


def test_shortened_prompts_are_told(preferences, train):
    run = train(preferences(context_length=20, on_overlength="truncate_left", max_steps=1))
    (note, _) = (event for event in run.of("noted") if event.code == "rows.changed")
    assert note.data["truncated"] > 0 == note.data["dropped"]
    assert note.data["kept"] == 12

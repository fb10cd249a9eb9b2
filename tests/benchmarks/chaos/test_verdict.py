"""The verdict finds what is wrong with a job, and nothing in one that is right."""

import pytest

from benchmarks.chaos.jobs import STEPS
from benchmarks.chaos.reference import Reference
from benchmarks.chaos.verdict import end_found, events_found, weights_found

REFERENCE = Reference(
    weights={step: f"sum {step}" for step in range(1, STEPS + 1)},
    metrics={step: {"train_loss": 1 / step} for step in range(1, STEPS + 1)},
    evaluated={},
)


def step_event(number, step, loss=None):
    data = {"code": "step.completed", "step": step, "step_seconds": number}
    return {"sequence": number, "data": data | {"train_loss": loss or 1 / step}}


def keys(events, status="succeeded"):
    return [key for key, _ in events_found(events, status, REFERENCE)]


def events(*steps):
    return [step_event(number, step) for number, step in enumerate(steps, start=1)]


def test_an_undisturbed_job_is_right():
    assert keys(events(*range(1, STEPS + 1))) == []


def test_a_cancelled_job_may_end_early():
    assert keys(events(1, 2, 3), "cancelled") == []


@pytest.mark.parametrize("steps", [(1, 2, 2, 3), (1, 3)])
def test_a_step_told_twice_or_left_out_is_found(steps):
    assert keys(events(*steps), "cancelled") == ["duplicated_steps"]


def test_a_gap_in_the_numbers_of_events_is_found():
    assert keys([step_event(1, 1), step_event(3, 2)], "cancelled") == ["duplicated_steps"]


def test_another_loss_than_that_of_the_undisturbed_run_is_found():
    assert keys([step_event(1, 1, loss=0.5)], "cancelled") == ["wrong_metrics"]


def told(code, at):
    return {"created_at": at, "data": {"code": code}}


@pytest.mark.parametrize(
    ("wanted", "status", "key"),
    [
        ("succeeded", "succeeded", []),
        ("succeeded", "failed", ["lost"]),
        ("cancelled", "running", ["lost"]),
        ("cancelled", "cancelled", []),
        ("cancelled", "succeeded", ["lying_status"]),
    ],
)
def test_a_job_ends_as_its_user_asked(wanted, status, key):
    events = [told("job.cancel_requested", 10), told("step.completed", 11)]
    assert [key for key, _ in end_found(events, wanted, status, None)] == key


def point(step, sum_):
    file = {"path": "model.safetensors", "sha256": sum_, "kind": "weights"}
    return {"step_number": step, "files": [file]}


def test_other_weights_and_missing_ones_are_found():
    right = point(STEPS, f"sum {STEPS}")
    assert weights_found([right], "succeeded", REFERENCE) == []
    assert len(weights_found([point(STEPS, "other")], "succeeded", REFERENCE)) == 1
    assert len(weights_found([], "succeeded", REFERENCE)) == 1
    assert weights_found([], "cancelled", REFERENCE) == []

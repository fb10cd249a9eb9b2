"""A run's line is the event that it was, and what is no event is refused."""

import math
from typing import get_args

import pytest
from pydantic import ValidationError

from core.spec.errors import JobError, data_failure, spec_failure
from core.spec.events import (
    Evaluated,
    Failed,
    Finished,
    Noted,
    RunEvent,
    Saved,
    Started,
    StepDone,
    Stopped,
    run_event,
)

METRICS = {"train_loss": 1.25, "grad_norm": 1e-30}
ERROR = JobError(code="c", message="m", param="training_file", fault="capacity", last_step=3)
EVENTS = [
    Started(at=1.5, step=0, total_steps=9, rows=4, layers={"streamed": 2, "whole": 0}),
    Noted(at=1.5, level="warn", code="rows_dropped", message="ü\x00", data={"rows": 1, "a": "b"}),
    StepDone(
        at=2.5, step=1, total_steps=9, trained_tokens=10**12, metrics=METRICS, seconds_left=0.1
    ),
    Evaluated(at=2.5, step=1, metrics=METRICS),
    Saved(at=2.5, step=1, path="checkpoints/step-00000001", metrics={}),
    Finished(at=3.5, step=9, trained_tokens=90, metrics=METRICS),
    Stopped(at=3.5, step=4),
    Failed(at=3.5, error=ERROR),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_a_line_is_the_event_that_it_was(event):
    line = event.model_dump_json()
    assert "\n" not in line
    assert run_event.validate_json(line) == event


def test_the_examples_hold_every_kind_of_event():
    union = get_args(RunEvent)[0]
    assert {type(event) for event in EVENTS} == set(get_args(union))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"{}",
        b'{"kind": "nothing"}',
        b'{"kind": "stopped", "at": 1.0}',
        b'{"kind": "stopped", "at": 1.0, "step": 1, "more": 1}',
        b'{"kind": "stopped", "at": 1.0, "step": "1"}',
    ],
)
def test_what_is_no_event_is_refused(line):
    with pytest.raises(ValidationError):
        run_event.validate_json(line)


def test_a_metric_is_a_finite_number():
    with pytest.raises(ValidationError):
        Evaluated(at=1.0, step=1, metrics={"valid_loss": math.nan})


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (data_failure("c", "no rows", hint="add some"), 11),
        (spec_failure("c", "no such model", param="model"), 10),
    ],
)
def test_a_failure_tells_the_user_and_the_process_above(failure, code):
    assert failure.exit_code == code
    assert failure.error.fault == "user"
    assert str(failure) == failure.error.message

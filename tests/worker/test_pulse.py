"""A run has stalled when it is silent for many times its longest silence, and never by living alone."""

import pytest

from core.spec.events import Evaluated, Noted, Started, StepDone
from worker.pulse import Pulse, StallLimits

START_S, FLOOR_S, FACTOR = 100.0, 10.0, 5.0


class Stage:
    """A pulse on a clock of our own."""

    def __init__(self):
        self.now = 1000.0
        self.pulse = Pulse(StallLimits(START_S, FLOOR_S, FACTOR), lambda: self.now)

    def after(self, seconds, *events):
        """Whether the run has stalled, seen so much later."""
        self.now += seconds
        self.pulse.hear(events)
        return self.pulse.stalled


@pytest.fixture
def stage():
    return Stage()


def note(at):
    return Noted(at=at, level="info", code="c", message="m")


def started(at, step=0):
    return Started(at=at, step=step, total_steps=9, rows=1, layers={})


def step(at, number):
    return StepDone(
        at=at, step=number, total_steps=9, trained_tokens=1, metrics={}, seconds_left=1.0
    )


def test_a_start_has_its_own_limit_until_the_first_step_is_done(stage):
    assert not stage.after(START_S)
    assert not stage.after(0, note(0.0))
    assert not stage.after(START_S, started(START_S))
    assert not stage.after(START_S)
    assert stage.after(1)


def test_steps_are_measured_by_the_longest_so_far(stage):
    stage.after(0, started(0.0), step(1.0, 1), step(5.0, 2), step(6.0, 3))
    assert stage.pulse.limit_s == FACTOR * 4.0
    assert not stage.after(FACTOR * 4.0)
    assert stage.after(1)
    assert (stage.pulse.step, stage.pulse.silent_s) == (3, FACTOR * 4.0 + 1)


def test_what_a_run_counts_in_between_is_no_silence_and_the_count_alone_is(stage):
    stage.after(0, started(0.0), step(1.0, 1))
    for beats in range(1, 4):
        stage.now += FLOOR_S
        stage.pulse.hear([], beats)
        assert not stage.pulse.stalled
    stage.now += FLOOR_S + 1
    stage.pulse.hear([], 3)
    assert stage.pulse.stalled


def test_short_steps_leave_the_floor(stage):
    stage.after(0, started(0.0), step(0.1, 1))
    assert not stage.after(FLOOR_S)
    assert stage.after(1)


def test_any_line_is_progress(stage):
    stage.after(0, started(0.0), step(0.1, 1))
    for seconds in range(9, 900, 9):
        assert not stage.after(9, Evaluated(at=float(seconds), step=1, metrics={}))


def test_the_time_that_weights_take_to_load_does_not_count_as_a_silence(stage):
    stage.after(0, note(0.0), started(80.0), step(81.0, 1))
    assert stage.pulse.limit_s == FLOOR_S


def test_a_worker_that_looks_late_sees_the_progress_first(stage):
    stage.after(0, started(0.0), step(0.1, 1))
    assert not stage.after(10_000, step(0.2, 2))
    assert stage.pulse.limit_s == FLOOR_S


def test_a_run_that_resumes_is_at_its_step(stage):
    stage.after(0, started(0.0, step=7))
    assert stage.pulse.step == 7

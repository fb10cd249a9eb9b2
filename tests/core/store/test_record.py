"""Each line of a run becomes its rows once, however often it is delivered."""

import pytest
from sqlalchemy import select

from core.spec.events import Evaluated, Noted, Started, StepDone
from core.store.attempts import Retries, expire_leases, stop_attempt
from core.store.errors import LeaseLost
from core.store.leases import claim_job
from core.store.record import record_events
from core.store.tables import EventRow, MetricRow

STARTED = Started(at=1.0, step=0, total_steps=4, rows=8, layers={"streamed": 2})


def step(number: int, loss: float = 1.0) -> StepDone:
    return StepDone(
        at=1.0,
        step=number,
        total_steps=4,
        trained_tokens=10 * number,
        metrics={"train_loss": loss},
        seconds_left=5.0,
    )


@pytest.fixture
def record(database):
    def do(lease, first_line, events):
        with database.begin() as session:
            record_events(session, lease, first_line, events)

    return do


@pytest.fixture
def codes(database):
    def read() -> list[str]:
        query = select(EventRow).order_by(EventRow.sequence)
        with database.begin() as session:
            return [event.data["code"] for event in session.scalars(query)]

    return read


@pytest.fixture
def losses(database):
    def read() -> dict[int, float]:
        with database.begin() as session:
            rows = session.scalars(select(MetricRow).where(MetricRow.name == "train_loss"))
            return {row.step: row.value for row in rows}

    return read


def test_a_line_becomes_metrics_progress_and_an_event(record, lease, codes, losses, read_job):
    record(lease, 0, [STARTED, step(1, 2.5)])
    job = read_job(lease.job_id)
    assert codes()[-2:] == ["training.started", "step.completed"]
    assert losses() == {1: 2.5}
    assert (job.step, job.total_steps, job.trained_tokens, job.phase) == (1, 4, 10, "training")
    assert job.estimated_finish.timestamp() == 6.0


def test_a_step_without_a_loss_is_told_as_skipped(record, lease, database, losses):
    skipped = step(1).model_copy(update={"metrics": {"skipped_steps": 1.0}})
    record(lease, 0, [STARTED, skipped])
    with database.begin() as session:
        messages = list(session.scalars(select(EventRow.message)))
    assert "Step 1/4: skipped" in messages
    assert losses() == {}


def test_lines_that_come_again_write_nothing_twice(record, lease, codes, losses):
    lines = [STARTED, step(1, 2.0), step(2, 1.0)]
    record(lease, 0, lines)
    written, measured = codes(), losses()
    record(lease, 0, lines)
    record(lease, 1, lines[1:])
    record(lease, 3, [])
    assert (codes(), losses()) == (written, measured)


def test_of_lines_that_overlap_only_the_new_ones_are_taken(record, lease, codes):
    record(lease, 0, [STARTED, step(1)])
    record(lease, 1, [step(1), step(2), step(3)])
    assert codes().count("step.completed") == 3


def test_lines_with_a_gap_are_refused(record, lease, codes):
    written = codes()
    with pytest.raises(ValueError, match="lines 0 to 1 are missing"):
        record(lease, 2, [step(1), step(2), step(3)])
    assert codes() == written


def test_a_resumed_run_overwrites_metrics_and_adds_no_event(
    database, record, lease, codes, losses, read_job
):
    record(lease, 0, [STARTED, step(1, 3.0), step(2, 2.0)])
    with database.begin() as session:
        stop_attempt(session, lease, "the worker ends")
    with database.begin() as session:
        second = claim_job(session, lease.job_id, worker="v", lease_s=60.0)
    resumed = STARTED.model_copy(update={"step": 1})
    record(second, 0, [resumed, step(2, 2.5), step(3, 1.5)])
    assert codes().count("step.completed") == 3
    assert codes().count("job.resumed") == 1
    assert losses() == {1: 3.0, 2: 2.5, 3: 1.5}
    assert (read_job(lease.job_id).step, read_job(lease.job_id).trained_tokens) == (3, 30)


def test_a_measurement_that_a_resumed_run_repeats_is_told_once(record, lease, codes):
    measured = Evaluated(at=1.0, step=1, metrics={"full_valid_loss": 2.0})
    record(lease, 0, [STARTED, step(1), measured])
    record(lease, 3, [STARTED, step(1), measured, step(2)])
    assert codes().count("eval.completed") == 1


def test_a_worker_that_lost_its_lease_records_nothing(database, new_job, record, codes, losses):
    with database.begin() as session:
        fenced = claim_job(session, new_job(), worker="w", lease_s=-1.0)
        expire_leases(session, Retries(5, 0.0))
    written = codes()
    with pytest.raises(LeaseLost):
        record(fenced, 0, [STARTED, step(1)])
    assert (codes(), losses()) == (written, {})


def test_what_a_run_notes_and_measures_is_told(record, lease, codes, database):
    noted = Noted(at=1.0, level="warn", code="rows_dropped", message="2 rows", data={"rows": 2})
    record(lease, 0, [STARTED, noted, Evaluated(at=1.0, step=1, metrics={"valid_loss": 0.5})])
    assert codes()[-2:] == ["rows_dropped", "eval.completed"]
    with database.begin() as session:
        event = session.scalars(select(EventRow).where(EventRow.level == "warn")).one()
        assert event.data == {"code": "rows_dropped", "rows": 2}
        assert session.scalars(select(MetricRow.value)).all() == [0.5]

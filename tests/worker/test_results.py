"""A job that ended has one file with the metrics of its events, whoever ended it."""

import csv

import pytest

from core.spec.errors import JobError
from core.spec.events import Evaluated, StepDone
from core.store.attempts import Retries, fail_attempt, succeed_job
from core.store.errors import ArtifactsDown
from core.store.files import get_file
from core.store.record import record_events
from core.store.wishes import cancel_job, pause_job
from worker import results as writing
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.results import COLUMNS, Results, write_missing_results

USER, PLATFORM = (
    JobError(code="c", message="m", fault=fault, retryable=fault == "platform")
    for fault in ("user", "platform")
)


def step(number):
    metrics = {"train_loss": 1 / number, "tokens_per_second": 3.0, "reward_mean": 0.1}
    return StepDone(
        at=1.0,
        step=number,
        total_steps=9,
        trained_tokens=1,
        metrics=metrics,
        seconds_left=0.0,
    )


EVENTS = [step(1), step(2), Evaluated(at=1.0, step=2, metrics={"full_valid_loss": 0.7}), step(3)]


@pytest.fixture
def lease(context, add_job, claim):
    """A job that has made three steps."""
    lease = claim(add_job())
    with context.database.begin() as session:
        record_events(session, lease, 0, EVENTS)
    return lease


@pytest.fixture
def end(context, lease):
    def do(ending):
        with LeaseKeeper(context.database, lease, 60.0) as keeper:
            Results(context, lease, keeper, Pen(context.database, keeper)).end(ending)

    return do


@pytest.fixture
def table(context, records, project):
    def read(job_id):
        with context.database.begin() as session:
            file = get_file(session, project, records.job(job_id).result_file_id)
        assert (file.purpose, file.status) == ("fine-tune-results", "processed")
        return b"".join(context.blobs.read(file.blob_id)).decode()

    return read


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_a_job_that_succeeds_has_a_row_for_each_step_with_openai_s_columns_first(
    lease, end, table, monkeypatch, page
):
    monkeypatch.setattr(writing, "EVENTS_AT_ONCE", page)
    end(lambda session, csv: succeed_job(session, lease, trained_tokens=1, results=csv))
    rows = list(csv.DictReader(table(lease.job_id).splitlines()))
    assert list(rows[0]) == [*COLUMNS, "reward_mean"]
    assert [float(row["train_loss"]) for row in rows] == [1.0, 1 / 2, 1 / 3]
    assert [row["full_valid_loss"] for row in rows] == ["", "0.7", ""]
    assert {row["tokens_per_s"] for row in rows} == {"3.0"}


def test_a_job_that_is_tried_again_has_no_file_and_leaves_no_bytes(lease, end, records):
    before = records.blob_count()
    end(lambda session, csv: fail_attempt(session, lease, PLATFORM, Retries(5, 0.0), results=csv))
    assert records.job(lease.job_id).status == "queued"
    assert (records.job(lease.job_id).result_file_id, records.blob_count()) == (None, before)


def test_a_job_that_fails_by_its_user_s_fault_has_its_file(lease, end, table, records):
    end(lambda session, csv: fail_attempt(session, lease, USER, Retries(), results=csv))
    assert records.job(lease.job_id).status == "failed"
    assert table(lease.job_id).count("\n") == 4


def test_a_job_without_a_step_has_no_file(context, add_job, claim, records):
    lease = claim(add_job())
    with LeaseKeeper(context.database, lease, 60.0) as keeper:
        Results(context, lease, keeper, Pen(context.database, keeper)).end(
            lambda session, csv: fail_attempt(session, lease, USER, Retries(), results=csv)
        )
    write_missing_results(context)
    assert records.job(lease.job_id).result_file_id is None


def test_a_job_that_is_cancelled_while_it_rests_gets_its_file_from_the_janitor(
    context, lease, end, project, table, records
):
    with context.database.begin() as session:
        pause_job(session, project, lease.job_id)
    end(lambda session, csv: fail_attempt(session, lease, USER, Retries(), results=csv))
    assert records.job(lease.job_id).status == "paused"
    with context.database.begin() as session:
        cancel_job(session, project, lease.job_id)
    write_missing_results(context)
    first = records.job(lease.job_id).result_file_id
    write_missing_results(context)
    assert records.job(lease.job_id).result_file_id == first
    assert table(lease.job_id).count("\n") == 4


def test_a_store_that_is_away_keeps_no_job_from_ending(
    context, lease, end, records, table, monkeypatch
):
    def refuse(_):
        raise ArtifactsDown("cannot write")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "LIMIT_S", 0.0)
        patch.setattr(context.blobs, "write", refuse)
        end(lambda session, csv: succeed_job(session, lease, trained_tokens=1, results=csv))
        write_missing_results(context)
    assert records.job(lease.job_id).status == "succeeded"
    write_missing_results(context)
    assert table(lease.job_id)

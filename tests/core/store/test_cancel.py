"""Cancel ends a job that waits, asks one that runs, and changes nothing when repeated."""

import pytest
from sqlalchemy import select

from core.spec.errors import JobError
from core.store.attempts import Retries, fail_attempt, stop_attempt, succeed_job
from core.store.errors import Conflict
from core.store.leases import claim_job
from core.store.tables import EventRow
from core.store.wishes import cancel_job, pause_job


@pytest.fixture
def cancel(database, project):
    def do(job_id: str):
        with database.begin() as session:
            return cancel_job(session, project, job_id)

    return do


@pytest.fixture
def codes(database):
    def read(job_id: str) -> list[str]:
        query = select(EventRow).where(EventRow.job_id == job_id).order_by(EventRow.sequence)
        with database.begin() as session:
            return [event.data["code"] for event in session.scalars(query)]

    return read


@pytest.mark.parametrize("prepared", [True, False])
def test_a_waiting_job_is_cancelled_at_once(cancel, new_job, training_file, codes, prepared):
    job_id = new_job(training_file(prepared=prepared))
    job = cancel(job_id)
    assert (job.status, job.phase, job.finished_at is not None) == ("cancelled", None, True)
    assert codes(job_id)[-1] == "job.cancelled"


def test_a_cancelled_job_cannot_be_claimed(database, cancel, new_job):
    job_id = new_job()
    cancel(job_id)
    with database.begin() as session:
        assert claim_job(session, job_id, worker="w", lease_s=60.0) is None


def test_a_running_job_goes_on_until_its_worker_stops_it(database, cancel, lease, read_job):
    job = cancel(lease.job_id)
    assert (job.status, job.phase) == ("running", "cancelling")
    assert job.cancel_requested_at is not None
    with database.begin() as session:
        stop_attempt(session, lease, "r")
    assert read_job(lease.job_id).status == "cancelled"


def test_a_cancel_that_was_granted_during_the_last_step_is_kept(
    database, cancel, lease, read_job, codes
):
    cancel(lease.job_id)
    with database.begin() as session:
        assert not succeed_job(session, lease, trained_tokens=7)
    job = read_job(lease.job_id)
    assert (job.status, job.fine_tuned_model, job.trained_tokens) == ("cancelled", None, 7)
    assert "job.succeeded" not in codes(lease.job_id)


def test_a_pause_of_a_run_whose_last_step_is_made_has_nothing_to_stop(
    database, project, lease, read_job
):
    with database.begin() as session:
        pause_job(session, project, lease.job_id)
        assert succeed_job(session, lease, trained_tokens=1)
    assert read_job(lease.job_id).status == "succeeded"


@pytest.mark.parametrize("running", [True, False])
def test_repeating_changes_nothing_and_writes_no_event(cancel, new_job, lease, codes, running):
    job_id = lease.job_id if running else new_job()
    first = cancel(job_id)
    written = codes(job_id)
    again = cancel(job_id)
    assert codes(job_id) == written
    assert (again.status, again.finished_at) == (first.status, first.finished_at)
    assert again.cancel_requested_at == first.cancel_requested_at


@pytest.mark.parametrize(
    "end",
    [
        lambda session, lease: succeed_job(session, lease, trained_tokens=1),
        lambda session, lease: fail_attempt(
            session, lease, JobError(code="c", message="m"), Retries()
        ),
    ],
)
def test_a_job_that_ended_otherwise_refuses(database, cancel, lease, end):
    with database.begin() as session:
        end(session, lease)
    with pytest.raises(Conflict, match=lease.job_id):
        cancel(lease.job_id)

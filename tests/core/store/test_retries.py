"""Failures by nobody's fault are tried again, ever later, until too many came since a checkpoint."""

import pytest

from core.spec.errors import JobError
from core.store.attempts import Retries, fail_attempt
from core.store.checkpoints import add_checkpoint
from core.store.leases import claim_job
from core.store.placement import Room
from core.store.queue import claim_next
from core.store.workers import report_worker

PATIENT = Retries(max_attempts=3, first_delay_s=0.0)
KILLED = JobError(code="killed", message="killed", fault="capacity", retryable=True)


@pytest.fixture
def fail_again(database, new_job):
    job_id = new_job()

    def do(error: JobError = KILLED, *, saved: bool = False) -> bool:
        with database.begin() as session:
            lease = claim_job(session, job_id, worker="w", lease_s=60.0)
            if saved:
                add_checkpoint(session, lease, step=lease.attempt, metrics={}, files=[])
            return fail_attempt(session, lease, error, PATIENT)

    do.job_id = job_id
    return do


def test_the_rest_doubles_up_to_the_longest():
    retries = Retries(first_delay_s=2.0, longest_delay_s=10.0)
    assert [retries.delay_s(n) for n in (1, 2, 3, 4, 2000)] == [2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_job_that_fails_too_often_fails(fail_again, read_job):
    assert [fail_again() for _ in range(3)] == [True, True, False]
    job = read_job(fail_again.job_id)
    assert (job.status, job.error["code"]) == ("failed", "killed")
    assert "3 times since the last checkpoint" in job.error["message"]


def test_a_checkpoint_is_progress_and_earns_new_patience(fail_again):
    assert [fail_again(), fail_again(), fail_again(saved=True), fail_again()] == [True] * 4
    assert fail_again() is False


def test_a_job_that_does_not_fit_goes_to_a_larger_worker_once(database, read_job, fail_again):
    need = 8 * 2**30
    too_large = JobError(
        code="insufficient_memory", message="m", fault="capacity", needed_bytes=need
    )
    with database.begin() as session:
        report_worker(session, "small", version="1", device="cpu", device_bytes=need // 2)
        report_worker(session, "large", version="1", device="cpu", device_bytes=need)
    assert fail_again(too_large) is True
    with database.begin() as session:
        assert claim_next(session, worker="small", lease_s=60.0, room=Room(bytes=need // 2)) is None
    assert read_job(fail_again.job_id).failures == 0
    assert fail_again(too_large) is False
    assert read_job(fail_again.job_id).error["code"] == "insufficient_memory"


def test_a_job_that_fits_nowhere_fails_with_what_it_needs(read_job, fail_again):
    too_large = JobError(code="insufficient_memory", message="m", fault="capacity", needed_bytes=1)
    assert fail_again(too_large) is False
    assert read_job(fail_again.job_id).error["needed_bytes"] == 1


@pytest.mark.parametrize(
    "error",
    [
        JobError(code="bad_rows", message="m", fault="user", retryable=True),
        JobError(code="out_of_memory", message="m", fault="capacity", retryable=False),
    ],
)
def test_a_failure_that_would_come_again_is_not_tried_again(fail_again, read_job, error):
    assert fail_again(error) is False
    assert read_job(fail_again.job_id).status == "failed"

"""Pause and resume, from every state, as often as a user likes."""

import pytest

from core.data.file_check import unfit_file
from core.spec.errors import JobError
from core.store.attempts import Retries, expire_leases, fail_attempt, stop_attempt, succeed_job
from core.store.errors import Conflict, NotFound
from core.store.files import remove_file
from core.store.leases import claim_job, renew_lease
from core.store.wishes import cancel_job, pause_job, resume_job

LOST = JobError(code="killed", message="m", fault="capacity", retryable=True)


@pytest.fixture
def pause(database, project):
    def do(job_id: str):
        with database.begin() as session:
            return pause_job(session, project, job_id)

    return do


@pytest.fixture
def resume(database, project):
    def do(job_id: str):
        with database.begin() as session:
            return resume_job(session, project, job_id, unfit_file)

    return do


@pytest.mark.parametrize("prepared", [True, False])
def test_a_waiting_job_is_paused_at_once_and_goes_on_where_it_was(
    pause, resume, new_job, training_file, prepared
):
    job_id = new_job(training_file(prepared=prepared))
    assert [pause(job_id).status for _ in range(2)] == ["paused", "paused"]
    wanted = "queued" if prepared else "validating_files"
    assert [resume(job_id).status for _ in range(2)] == [wanted, wanted]


def test_a_paused_job_is_taken_by_no_worker(database, pause, new_job):
    job_id = new_job()
    pause(job_id)
    with database.begin() as session:
        assert claim_job(session, job_id, worker="w", lease_s=60.0) is None


@pytest.mark.parametrize(
    "end",
    [
        lambda session, lease: stop_attempt(session, lease, "r"),
        lambda session, lease: fail_attempt(session, lease, LOST, Retries()),
    ],
)
def test_a_running_job_is_asked_and_paused_however_its_attempt_ends(
    database, pause, lease, read_job, end
):
    job = pause(lease.job_id)
    assert (job.status, job.phase) == ("running", "pausing")
    with database.begin() as session:
        assert renew_lease(session, lease, lease_s=60.0) == "pause"
        end(session, lease)
    job = read_job(lease.job_id)
    assert (job.status, job.phase, job.pause_requested_at) == ("paused", None, None)


def test_a_job_whose_worker_is_lost_while_it_should_pause_is_paused(
    database, pause, new_job, read_job
):
    job_id = new_job()
    with database.begin() as session:
        claim_job(session, job_id, worker="w", lease_s=-1.0)
    pause(job_id)
    with database.begin() as session:
        assert expire_leases(session, Retries()) == []
    assert read_job(job_id).status == "paused"


def test_a_pause_can_be_withdrawn_before_it_is_granted(database, pause, resume, lease):
    pause(lease.job_id)
    assert resume(lease.job_id).phase == "training"
    with database.begin() as session:
        assert renew_lease(session, lease, lease_s=60.0) is None


def test_a_cancel_outranks_a_pause(database, project, pause, resume, lease, read_job):
    pause(lease.job_id)
    with database.begin() as session:
        cancel_job(session, project, lease.job_id)
        assert renew_lease(session, lease, lease_s=60.0) == "cancel"
    for wish in (pause, resume):
        with pytest.raises(Conflict, match="being cancelled"):
            wish(lease.job_id)
    with database.begin() as session:
        stop_attempt(session, lease, "r")
    assert read_job(lease.job_id).status == "cancelled"


def test_a_paused_job_can_be_cancelled(database, project, pause, new_job):
    job_id = new_job()
    pause(job_id)
    with database.begin() as session:
        assert cancel_job(session, project, job_id).status == "cancelled"


def test_resuming_without_the_file_fails_the_job_and_says_so(
    database, project, pause, resume, new_job, training_file
):
    file_id = training_file()
    job_id = new_job(file_id)
    pause(job_id)
    with database.begin() as session:
        remove_file(session, project, file_id)
    job = resume(job_id)
    assert (job.status, job.error["code"]) == ("failed", "invalid_training_file")


def test_a_job_that_ended_refuses(database, pause, resume, lease):
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=1)
    for wish in (pause, resume):
        with pytest.raises(Conflict, match="already succeeded"):
            wish(lease.job_id)


def test_another_project_finds_no_such_job(database, other_project, new_job):
    job_id = new_job()
    for wish in (pause_job, lambda *names: resume_job(*names, unfit_file)):
        with pytest.raises(NotFound), database.begin() as session:
            wish(session, other_project, job_id)

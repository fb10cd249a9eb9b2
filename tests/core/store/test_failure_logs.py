"""The end of a trainer's log becomes a File in the transaction in which its attempt fails."""

import pytest

from core.spec.errors import JobError
from core.store.attempts import Retries, fail_attempt
from core.store.events import list_events
from core.store.files import LOG_PURPOSE, get_file, list_files
from core.store.jobs import get_job
from core.store.remarks import tell_skipped, tell_stalled
from core.store.wishes import cancel_job

USER = JobError(code="bad", message="bad")
CRASH = JobError(code="crash", message="crash", fault="platform", retryable=True)


@pytest.fixture
def fail(database, lease, blobs):
    def do(error):
        log = blobs.write([b"why"])
        with database.begin() as session:
            fail_attempt(session, lease, error, Retries(first_delay_s=0.0), log=log)
        return log

    return do


@pytest.fixture
def last_event(database, project):
    def read(job_id):
        with database.begin() as session:
            job = get_job(session, project, job_id)
            return list_events(session, job, after=None, limit=1).rows[0]

    return read


def test_a_job_that_failed_names_its_log(fail, database, project, lease, read_job):
    log = fail(USER)
    with database.begin() as session:
        file = get_file(session, project, read_job(lease.job_id).error["log_file_id"])
    assert (file.blob_id, file.purpose, file.status) == (log.id, LOG_PURPOSE, "processed")
    assert file.filename == f"{lease.job_id}-attempt-1.log"


def test_an_attempt_that_is_repeated_names_it_in_its_event(fail, lease, read_job, last_event):
    fail(CRASH)
    assert read_job(lease.job_id).error is None
    assert last_event(lease.job_id).data["log_file_id"].startswith("file-")


def test_a_job_that_is_cancelled_has_no_log(fail, database, project, lease):
    with database.begin() as session:
        cancel_job(session, project, lease.job_id)
    fail(USER)
    with database.begin() as session:
        page = list_files(session, project, purpose=LOG_PURPOSE, after=None, limit=9, order="desc")
    assert page.rows == []


def test_a_stall_is_told_and_shown(database, lease, read_job, last_event):
    with database.begin() as session:
        tell_stalled(session, lease, step=3, seconds=61.25)
    event = last_event(lease.job_id)
    assert read_job(lease.job_id).phase == "stalled"
    assert (event.level, event.data) == (
        "warn",
        {"code": "job.stalled", "step": 3, "seconds": 61.2},
    )


def test_a_checkpoint_that_is_skipped_is_told(database, lease, last_event):
    with database.begin() as session:
        tell_skipped(session, lease, step=3)
    assert last_event(lease.job_id).data == {"code": "checkpoint.skipped", "step": 3}

"""Of two workers one gets the job, and a worker that lost its lease can write nothing."""

import pytest

from core.data.file_check import unfit_file
from core.spec.errors import JobError
from core.spec.job import JobSpec
from core.store.attempts import Retries, expire_leases, fail_attempt, stop_attempt, succeed_job
from core.store.errors import LeaseLost
from core.store.jobs import create_job, get_job
from core.store.leases import claim_job, renew_lease
from core.store.tables import AttemptRow
from core.store.wishes import cancel_job

LONG, OVER = 60.0, -1.0


@pytest.fixture
def job_id(database, project, training_file):
    spec = JobSpec(model="m", training_file=training_file())
    with database.begin() as session:
        return create_job(session, project, spec, unfit=unfit_file).id


@pytest.fixture
def claim(database, job_id):
    def do(lease_s=LONG):
        with database.begin() as session:
            return claim_job(session, job_id, worker="w", lease_s=lease_s)

    return do


@pytest.fixture
def job(database, project, job_id):
    def read():
        with database.begin() as session:
            return get_job(session, project, job_id)

    return read


def test_a_job_is_claimed_once(claim, job):
    assert claim() is not None
    assert claim() is None
    assert (job().status, job().attempts) == ("running", 1)


def test_a_renewal_brings_the_wish_to_cancel(database, project, claim, job_id):
    lease = claim()
    with database.begin() as session:
        assert renew_lease(session, lease, lease_s=LONG) is None
        cancel_job(session, project, job_id)
        assert renew_lease(session, lease, lease_s=LONG) == "cancel"


def test_an_expired_job_goes_to_another_worker(database, claim):
    first = claim(OVER)
    with database.begin() as session:
        assert expire_leases(session, Retries(5, 0.0)) == [first.job_id]
    second = claim()
    assert (second.attempt, second.token != first.token) == (2, True)
    with database.begin() as session:
        assert session.get(AttemptRow, (first.job_id, 1)).outcome == "worker_lost"


def test_a_healthy_lease_is_not_expired(database, claim, job):
    claim()
    with database.begin() as session:
        assert expire_leases(session, Retries(5, 0.0)) == []
    assert job().status == "running"


@pytest.mark.parametrize(
    "write",
    [
        lambda session, lease: renew_lease(session, lease, lease_s=LONG),
        lambda session, lease: succeed_job(session, lease, trained_tokens=1),
        lambda session, lease: fail_attempt(
            session, lease, JobError(code="c", message="m"), Retries()
        ),
        lambda session, lease: stop_attempt(session, lease, "r"),
    ],
)
def test_a_fenced_worker_can_write_nothing(database, claim, job, write):
    fenced = claim(OVER)
    with database.begin() as session:
        expire_leases(session, Retries(5, 0.0))
    current = claim()
    with pytest.raises(LeaseLost), database.begin() as session:
        write(session, fenced)
    assert job().status == "running"
    assert job().lease_token == current.token


def test_a_job_that_loses_every_worker_fails_and_says_so(database, claim, job):
    for _ in range(3):
        assert claim(OVER) is not None
        with database.begin() as session:
            expire_leases(session, Retries(3, 0.0))
    assert job().status == "failed"
    assert job().error["code"] == "worker_lost"
    assert job().error["fault"] == "platform"


def test_a_lost_job_that_should_be_cancelled_is_cancelled(database, project, claim, job, job_id):
    claim(OVER)
    with database.begin() as session:
        cancel_job(session, project, job_id)
        assert expire_leases(session, Retries(5, 0.0)) == []
    assert job().status == "cancelled"


def test_a_job_handed_back_can_be_claimed_again(database, claim, job):
    lease = claim()
    with database.begin() as session:
        stop_attempt(session, lease, "the worker ends")
    assert job().status == "queued"
    assert claim().attempt == 2


def test_success_names_the_model_and_ends_the_lease(database, claim, job):
    lease = claim()
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=7)
    done = job()
    assert done.fine_tuned_model == f"ft:m:org-castalia::{done.id.removeprefix('ftjob-')[:8]}"
    assert (done.status, done.trained_tokens, done.lease_token) == ("succeeded", 7, None)

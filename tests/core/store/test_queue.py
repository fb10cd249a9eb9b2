"""Who is next: projects take turns, then the urgent, then the old; and why somebody waits."""

import pytest

from core.spec.errors import JobError
from core.spec.trainer import TrainerSpec
from core.store.attempts import Retries, fail_attempt
from core.store.jobs import get_job
from core.store.placement import Room
from core.store.queue import claim_next, queued_jobs, waiting
from core.store.tables import JobRow
from core.store.workers import report_worker

GIB = 2**30


@pytest.fixture
def claim(database):
    def do(**offered):
        with database.begin() as session:
            lease = claim_next(session, worker="w", lease_s=60.0, **offered)
        return lease and lease.job_id

    return do


@pytest.fixture
def place(database, project):
    def of(job_id: str):
        with database.begin() as session:
            return waiting(session, [get_job(session, project, job_id)]).get(job_id)

    return of


@pytest.fixture
def plan(database):
    def need(job_id: str, size: int) -> None:
        with database.begin() as session:
            session.get_one(JobRow, job_id).predicted_bytes = size

    return need


def worker_of(database, size: int | None) -> None:
    with database.begin() as session:
        report_worker(session, f"w{size}", version="1", device="cpu", device_bytes=size)


def urgent(priority: str) -> dict[str, TrainerSpec]:
    return {"trainer": TrainerSpec(priority=priority)}


def test_the_urgent_goes_before_the_old_and_the_old_before_the_new(claim, new_job):
    low, first, second = new_job(**urgent("low")), new_job(), new_job()
    high = new_job(**urgent("high"))
    assert [claim() for _ in range(5)] == [high, first, second, low, None]


def test_projects_take_turns_whatever_their_priorities(claim, new_job, other_project):
    mine = [new_job(**urgent("high")) for _ in range(3)]
    others = [new_job(owner=other_project, **urgent("low")) for _ in range(2)]
    claimed = [claim() for _ in range(4)]
    assert claimed == [mine[0], others[0], mine[1], others[1]]


def test_a_job_that_does_not_fit_is_passed_over(claim, new_job, plan):
    large, small = new_job(), new_job()
    plan(large, 8 * GIB)
    plan(small, 2 * GIB)
    assert [claim(room=Room(bytes=4 * GIB)) for _ in range(2)] == [small, None]
    assert claim(room=Room(bytes=8 * GIB)) == large


def test_a_worker_that_does_not_know_its_memory_takes_any(claim, new_job, plan):
    job_id = new_job()
    plan(job_id, 8 * GIB)
    assert claim() == job_id


@pytest.mark.parametrize(("delay_s", "again"), [(60.0, False), (0.0, True)])
def test_a_job_rests_after_a_failure(database, claim, new_job, place, delay_s, again):
    job_id = new_job()
    with database.begin() as session:
        lease = claim_next(session, worker="w", lease_s=60.0)
        error = JobError(code="killed", message="m", fault="platform", retryable=True)
        assert fail_attempt(session, lease, error, Retries(first_delay_s=delay_s)) is True
    if not again:
        found = place(job_id)
        assert (found.reason, found.until is not None) == ("backing_off", True)
    with database.begin() as session:
        assert queued_jobs(session) == ([job_id] if again else [])
    assert claim() == (job_id if again else None)


def test_places_are_counted_in_the_order_of_claims(claim, new_job, place):
    ids = [new_job(), new_job(**urgent("high")), new_job()]
    assert [place(job_id).position for job_id in ids] == [2, 1, 3]
    taken = claim()
    assert place(taken) is None


def test_who_waits_is_told_why(database, new_job, place, plan):
    job_id = new_job()
    assert place(job_id).reason == "no_worker"
    worker_of(database, 4 * GIB)
    assert place(job_id).reason == "workers_busy"
    plan(job_id, 8 * GIB)
    found = place(job_id)
    assert found.reason == "no_worker_large_enough"
    assert str(4 * GIB) in found.message
    assert "trainer.context_length" in found.message
    worker_of(database, None)
    assert place(job_id).reason == "workers_busy"


def test_a_job_of_a_spec_that_cannot_be_read_fails_and_the_next_is_taken(
    database, project, claim, new_job
):
    unread, next_one = new_job(), new_job()
    with database.begin() as session:
        row = session.get_one(JobRow, unread)
        row.spec = {**row.spec, "of_tomorrow": 1}
    assert claim() == next_one
    with database.begin() as session:
        job = get_job(session, project, unread)
    assert (job.status, job.error["code"]) == ("failed", "spec_not_readable")
    assert "of_tomorrow" in job.error["message"]


def test_places_are_counted_as_jobs_are_taken(database, project, claim, new_job, other_project):
    owners, priorities = [project, other_project, other_project], ["low", "high", "normal", "high"]
    for number in range(12):
        new_job(owner=owners[number % 3], **urgent(priorities[number % 4]))
    claim()
    claim()
    claim()
    with database.begin() as session:
        order = queued_jobs(session)
        rows = [session.get_one(JobRow, job_id) for job_id in order]
        found = waiting(session, rows[::-1])
    assert [found[job_id].position for job_id in order] == list(range(1, 10))

"""A job on several devices goes where they are; one that has begun goes on with fewer, and says so."""

import pytest

from core.spec.trainer import TrainerSpec
from core.store.attempts import stop_attempt
from core.store.events import list_events
from core.store.jobs import get_job
from core.store.placement import Room
from core.store.queue import claim_next, waiting
from core.store.tables import AttemptRow, JobRow
from core.store.workers import remove_worker, report_worker

GIB = 2**30


@pytest.fixture
def claim(database):
    """The lease of a worker with this room."""

    def do(devices: int, size: int | None = 8 * GIB, after_s: float | None = 0.0):
        room = Room(devices, size, after_s)
        with database.begin() as session:
            return claim_next(session, worker="w", lease_s=60.0, room=room)

    return do


@pytest.fixture
def report(database):
    def say(devices: int, size: int | None = 8 * GIB, name: str = "w") -> None:
        with database.begin() as session:
            report_worker(
                session, name, version="1", device="A", device_bytes=size, devices=devices
            )

    return say


@pytest.fixture
def spread_job(new_job):
    """A job on four devices."""

    def make(strategy: str = "fsdp") -> str:
        parallel = {"devices": 4, "strategy": strategy}
        return new_job(trainer=TrainerSpec.parse({"parallel": parallel}))

    return make


@pytest.fixture
def begun(database, claim, spread_job):
    """Such a job that made steps, with a plan of so many bytes a device, and lost its worker."""

    def make(need: int | None = GIB, strategy: str = "fsdp") -> str:
        job_id = spread_job(strategy)
        lease = claim(4)
        assert lease.job_id == job_id
        with database.begin() as session:
            row = session.get_one(JobRow, job_id)
            row.step, row.predicted_bytes = 3, need
            stop_attempt(session, lease, "the worker ends")
        return job_id

    return make


@pytest.fixture
def reason(database, project):
    def of(job_id: str):
        with database.begin() as session:
            found = waiting(session, [get_job(session, project, job_id)])[job_id]
        return found.reason, found.message

    return of


def test_a_job_waits_for_a_worker_with_its_devices_and_others_pass_it(claim, new_job, spread_job):
    spread, single = spread_job(), new_job()
    assert claim(2).job_id == single
    assert claim(2) is None
    lease = claim(4)
    assert (lease.job_id, lease.spec.trainer.parallel.devices) == (spread, 4)


def test_an_attempt_counts_the_devices_that_its_trainer_has(database, claim, new_job, spread_job):
    leases = [claim(4) for _ in (spread_job(), new_job())]
    with database.begin() as session:
        counted = [session.get_one(AttemptRow, (one.job_id, 1)).devices for one in leases]
    assert counted == [4, 1]


def test_who_waits_for_devices_is_told(report, reason, spread_job):
    job_id = spread_job()
    report(2)
    word, message = reason(job_id)
    assert word == "too_few_devices"
    assert "needs 4 devices" in message
    assert "largest worker gives 2" in message
    assert "trainer.parallel.devices: 2" in message
    report(4, name="large")
    assert reason(job_id)[0] == "workers_busy"


def test_memory_counts_on_workers_that_have_the_devices(database, report, reason, spread_job):
    job_id = spread_job()
    with database.begin() as session:
        session.get_one(JobRow, job_id).predicted_bytes = 8 * GIB
    report(1, 64 * GIB, name="roomy")
    report(4, 4 * GIB, name="many")
    word, message = reason(job_id)
    assert word == "no_worker_large_enough"
    assert f"with 4 devices has {4 * GIB}" in message


def test_a_job_that_has_begun_goes_on_with_fewer_where_none_has_as_many(
    database, project, claim, report, begun
):
    job_id = begun()
    report(4, name="large")
    assert claim(2) is None
    with database.begin() as session:
        remove_worker(session, "large")
    lease = claim(2)
    assert (lease.job_id, lease.spec.trainer.parallel.devices) == (job_id, 2)
    with database.begin() as session:
        job = get_job(session, project, job_id)
        told = list_events(session, job, after=None, limit=1).rows[0]
        assert session.get_one(AttemptRow, (job_id, 2)).devices == 2
    assert job.spec["trainer"]["parallel"]["devices"] == 4
    assert told.data["code"] == "job.fewer_devices"
    assert (told.data["asked"], told.data["devices"]) == (4, 2)


def test_it_waits_a_while_first_and_for_the_worker_that_has_the_most(claim, report, begun):
    job_id = begun()
    assert claim(2, after_s=60.0) is None
    assert claim(2, after_s=None) is None
    report(3)
    assert claim(2) is None
    assert claim(3).job_id == job_id


@pytest.mark.parametrize(
    ("need", "strategy", "size", "taken"),
    [
        (4 * GIB, "fsdp", 8 * GIB, True),
        (4 * GIB + 1, "fsdp", 8 * GIB, False),
        (8 * GIB, "ddp", 8 * GIB, True),
        (8 * GIB + 1, "ddp", 8 * GIB, False),
        (None, "fsdp", 8 * GIB, False),
        (None, "fsdp", None, True),
    ],
)
def test_it_goes_on_with_fewer_only_where_its_plan_fits(claim, begun, need, strategy, size, taken):
    begun(need, strategy)
    assert (claim(2, size) is not None) is taken


def test_a_job_that_made_no_step_is_not_taken_with_fewer(claim, spread_job):
    spread_job()
    assert claim(2) is None

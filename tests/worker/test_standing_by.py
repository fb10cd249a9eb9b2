"""Of two janitors one sweeps, and the other goes on at once where it stops."""

import pytest
from sqlalchemy import text

from core.spec.bell import TRAIN_TASK
from core.store.tables import WorkerRow
from core.store.workers import SILENT_S, report_worker
from worker.context import WorkerContext
from worker.janitor import Janitor

LEASE_S = 5


class Stage:
    """Two janitors on one clock, each with a database of its own, and the rings that each gave."""

    def __init__(self, contexts):
        self.now = 1000.0
        self.rings = [[], []]
        self.janitors = [
            Janitor(context, lambda *ring, heard=heard: heard.append(ring), lambda: self.now)
            for context, heard in zip(contexts, self.rings, strict=True)
        ]

    def sweep(self, after=0.0):
        self.now += after
        for janitor in self.janitors:
            janitor.sweep()


@pytest.fixture
def stage(settings):
    contexts = [WorkerContext.open(settings) for _ in range(2)]
    stage = Stage(contexts)
    yield stage
    for janitor, context in zip(stage.janitors, contexts, strict=True):
        janitor.close()
        context.database.close()


def cut(database, janitor):
    """End the connection by which a janitor leads."""
    own = janitor._leadership._connection.scalar(text("select pg_backend_pid()"))
    with database.begin() as session:
        session.execute(text("select pg_terminate_backend(:own)"), {"own": own})


def test_one_rings_and_the_other_stands_by(stage, add_job):
    job_id = add_job()
    stage.sweep()
    assert stage.rings == [[(TRAIN_TASK, job_id)], []]


def test_the_successor_of_a_dead_one_expires_at_once_what_it_saw_age(
    stage, add_job, claim, database, records
):
    lease = claim(add_job(), -1.0)
    stage.sweep()
    stage.sweep(LEASE_S - 1)
    assert records.job(lease.job_id).status == "running"
    cut(database, stage.janitors[0])
    stage.sweep(1)
    assert records.job(lease.job_id).status == "queued"
    assert stage.rings == [[], [(TRAIN_TASK, lease.job_id)]]


def test_one_that_ends_in_order_is_succeeded(stage, add_job):
    stage.sweep()
    stage.janitors[0].run(_Set())
    job_id = add_job()
    stage.janitors[1].sweep()
    assert stage.rings == [[], [(TRAIN_TASK, job_id)]]


class _Set:
    """An event that is set already."""

    def wait(self, _):
        return True


def test_a_worker_that_is_long_silent_is_forgotten(stage, database):
    with database.begin() as session:
        for name in ("silent", "there"):
            report_worker(session, name, version="1", device="cpu", device_bytes=None)
        age = text("update workers set seen_at = now() - make_interval(secs => :s) where name = :n")
        session.execute(age, {"s": 10 * SILENT_S + 1, "n": "silent"})
    stage.sweep()
    with database.begin() as session:
        assert [row.name for row in session.query(WorkerRow)] == ["there"]

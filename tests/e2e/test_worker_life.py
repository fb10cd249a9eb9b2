"""A worker that serves several jobs hands all of them back when it is told to end."""

import signal

from core.spec.bell import TRAIN_TASK
from core.store.queue import queued_jobs
from core.store.tables import JobRow
from core.store.workers import live_workers


def test_all_jobs_of_a_worker_are_handed_back_with_their_checkpoints(
    worker, ring, add_job, until, database
):
    jobs = [add_job(), add_job()]

    def rows():
        with database.begin() as session:
            return [session.get_one(JobRow, job_id) for job_id in jobs]

    process = worker("--queue=train", "--concurrency=2")
    until(lambda: listed(database))
    for job_id in jobs:
        ring(TRAIN_TASK, job_id)
    until(lambda: all(row.step >= 1 for row in rows()))
    present = listed(database)
    assert [row.name.rpartition("/")[2] for row in present] == ["0", "1"]
    assert all((row.device_bytes or 0) > 0 for row in present)
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) is not None
    with database.begin() as session:
        assert sorted(queued_jobs(session)) == sorted(jobs)
    assert listed(database) == []
    assert [row.failures for row in rows()] == [0, 0]


def listed(database):
    """Slots of workers that are there; a ring that is given before may expire unheard."""
    with database.begin() as session:
        return live_workers(session)

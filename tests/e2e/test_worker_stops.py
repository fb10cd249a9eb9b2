"""A worker that is told to end while its store takes and gives nothing hands everything back in time."""

import signal

from sqlalchemy import text

from core.spec.bell import PREPARE_TASK, TRAIN_TASK
from core.store.checkpoints import checkpoint_files, checkpoints_of
from core.store.tables import EventRow, FileRow, JobRow
from core.store.workers import live_workers

GRACE_S = 4
MARGIN_S = 30
"""For a machine that does much else; a store is waited for half an hour where nobody is told to end."""
STUCK = "select count(*) from pg_locks where not granted and relation = 'blob_pieces'::regclass"


def test_a_layout_an_upload_and_a_check_are_given_up_and_nothing_is_half_written(
    worker, ring, add_job, until, database, training_file, tmp_path
):
    process = worker("--queue=all", "--concurrency=3", STOP_GRACE_S=str(GRACE_S))
    uploading = add_job(checkpoint={"every": 1})
    until(lambda: listed(database))  # a ring that is given before may expire unheard
    ring(TRAIN_TASK, uploading)
    until(lambda: row(database, JobRow, uploading).step >= 1)
    laying_out, file_id = add_job(), training_file(prepared=False)
    with database.begin() as session:
        session.execute(text("lock table blob_pieces in access exclusive mode"))
        ring(TRAIN_TASK, laying_out)
        ring(PREPARE_TASK, file_id)
        until(lambda: stuck(database) >= 3)
        process.send_signal(signal.SIGTERM)
        process.wait(2 * GRACE_S + MARGIN_S)
    for job_id in (uploading, laying_out):
        job = row(database, JobRow, job_id)
        assert (job.status, job.failures, job.lease_token) == ("queued", 0, None)
        assert last_code(database, job) == "job.handed_back"
    assert row(database, FileRow, file_id).status == "uploaded"
    assert row(database, FileRow, file_id).report is None
    assert list((tmp_path / "runs").rglob("*")) == []
    with database.begin() as session:
        stored = checkpoints_of(session, uploading)
        files = checkpoint_files(session, [point.id for point in stored])
    for point in stored:
        assert {"weights", "state", "manifest"} <= {file.kind for file in files[point.id]}


def listed(database):
    with database.begin() as session:
        return live_workers(session)


def row(database, kind, id):
    with database.begin() as session:
        return session.get_one(kind, id)


def stuck(database):
    with database.begin() as session:
        return session.scalar(text(STUCK))


def last_code(database, job):
    with database.begin() as session:
        return session.get_one(EventRow, (job.id, job.events_written)).data["code"]

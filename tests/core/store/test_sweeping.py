"""What the sweep asks for: what waits, oldest first, and what nobody owns."""

from core.store.files import find_unprepared, orphaned_blobs, unprepared_files
from core.store.jobs import count_by_status
from core.store.queue import queued_jobs
from core.store.wishes import cancel_job


def test_a_blob_that_no_file_names_is_an_orphan(database, blobs, training_file):
    training_file()
    orphan = blobs.write([b"left behind"])
    with database.begin() as session:
        assert orphaned_blobs(session, -1) == [orphan.id]


def test_a_young_blob_is_given_time(database, blobs):
    blobs.write([b"its file is being written"])
    with database.begin() as session:
        assert orphaned_blobs(session, 3600) == []


def test_files_that_wait_are_told_oldest_first(database, training_file):
    waiting = [training_file(prepared=False) for _ in range(3)]
    ready = training_file()
    with database.begin() as session:
        assert unprepared_files(session) == waiting
        assert find_unprepared(session, waiting[0]).id == waiting[0]
        assert find_unprepared(session, ready) is None
        assert find_unprepared(session, "file-none") is None


def test_jobs_that_wait_are_told_oldest_first(database, project, new_job, training_file):
    queued = [new_job() for _ in range(3)]
    new_job(training_file(prepared=False))
    with database.begin() as session:
        cancel_job(session, project, queued[1])
    with database.begin() as session:
        assert queued_jobs(session) == [queued[0], queued[2]]
        counts = count_by_status(session)
    assert counts == {
        "validating_files": 1,
        "queued": 2,
        "running": 0,
        "paused": 0,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 1,
    }

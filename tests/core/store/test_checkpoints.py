"""A checkpoint is visible with all of its files or not at all."""

import pytest
from sqlalchemy import select

from core.store.attempts import Retries, expire_leases
from core.store.checkpoints import (
    StoredFile,
    add_checkpoint,
    checkpoint_files,
    checkpoints_of,
    drop_old_checkpoints,
    list_checkpoints,
)
from core.store.errors import LeaseLost
from core.store.files import list_files, orphaned_blobs
from core.store.leases import claim_job
from core.store.tables import CheckpointRow, FileRow


@pytest.fixture
def save(database, blobs):
    """Stores a checkpoint of two files; returns its id and the ids of its blobs."""

    def do(lease, step: int) -> tuple[str, list[str]]:
        files = [
            StoredFile("model.safetensors", "weights", blobs.write([b"w" * step])),
            StoredFile("config.json", "weights", blobs.write([b"{}"])),
        ]
        with database.begin() as session:
            id = add_checkpoint(session, lease, step=step, metrics={"train_loss": 1.0}, files=files)
        return id, [file.blob.id for file in files]

    return do


@pytest.fixture
def steps(database, read_job):
    def read(lease) -> list[int]:
        with database.begin() as session:
            page = list_checkpoints(session, read_job(lease.job_id), after=None, limit=10)
        return [row.step for row in page.rows]

    return read


def test_a_checkpoint_comes_with_its_files_and_an_event(database, project, lease, save):
    id, blob_ids = save(lease, 3)
    with database.begin() as session:
        files = checkpoint_files(session, [id])[id]
        listed = list_files(
            session, project, purpose="checkpoint", after=None, limit=10, order="desc"
        )
    assert [(file.filename, file.bytes) for file in files] == [
        ("config.json", 2),
        ("model.safetensors", 3),
    ]
    assert {file.blob_id for file in files} == set(blob_ids)
    assert {row.id for row in listed.rows} == {file.id for file in files}
    assert {row.status for row in listed.rows} == {"processed"}


def test_a_worker_that_lost_its_lease_makes_nothing_visible(database, new_job, save):
    with database.begin() as session:
        fenced = claim_job(session, new_job(), worker="w", lease_s=-1.0)
        expire_leases(session, Retries(5, 0.0))
    with pytest.raises(LeaseLost):
        save(fenced, 1)
    with database.begin() as session:
        assert session.scalars(select(CheckpointRow)).all() == []
        assert session.scalars(select(FileRow.purpose)).all() == ["fine-tune"]


def test_a_step_that_is_saved_again_replaces_the_former(database, lease, save, steps):
    _, old_blobs = save(lease, 2)
    new, new_blobs = save(lease, 2)
    assert steps(lease) == [2]
    with database.begin() as session:
        assert checkpoints_of(session, lease.job_id)[0].id == new
        assert {f.blob_id for f in checkpoint_files(session, [new])[new]} == set(new_blobs)
        assert set(orphaned_blobs(session, -1)) == set(old_blobs)


def test_only_the_last_are_kept_and_the_blobs_of_the_others_are_told(database, lease, save, steps):
    saved = {step: save(lease, step)[1] for step in (1, 2, 3, 4)}
    with database.begin() as session:
        dropped = drop_old_checkpoints(session, lease, keep_last=2)
    assert set(dropped) == {*saved[1], *saved[2]}
    assert steps(lease) == [4, 3]
    with database.begin() as session:
        kept = set(session.scalars(select(FileRow.blob_id).where(FileRow.kind == "weights")))
    assert kept == {*saved[3], *saved[4]}


def test_keeping_more_than_there_are_drops_nothing(database, lease, save, steps):
    save(lease, 1)
    with database.begin() as session:
        assert drop_old_checkpoints(session, lease, keep_last=5) == []
    assert steps(lease) == [1]


def test_the_first_has_the_most_steps_whenever_it_was_saved(database, lease, save):
    newest, _ = save(lease, 9)
    save(lease, 5)
    with database.begin() as session:
        assert [row.step for row in checkpoints_of(session, lease.job_id)] == [9, 5]
        assert checkpoints_of(session, lease.job_id)[0].id == newest
        assert checkpoints_of(session, "ftjob-none") == []


def test_the_files_of_each_checkpoint_are_its_own(database, lease, save):
    first, second = save(lease, 1)[0], save(lease, 2)[0]
    with database.begin() as session:
        files = checkpoint_files(session, [first, second])
    assert [[file.bytes for file in files[id]] for id in (first, second)] == [[2, 1], [2, 2]]

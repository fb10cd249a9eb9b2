"""A run goes on from the newest checkpoint in the store of which every byte is right."""

from dataclasses import replace

import pytest

from core.spec.errors import RunFailure
from core.store.blobs import Blob
from core.store.checkpoints import StoredFile, add_checkpoint
from core.store.objects import ObjectBlobs
from worker.keeper import LeaseKeeper
from worker.layout import lay_out
from worker.stored_checkpoint import fetch_checkpoint


@pytest.fixture
def context(context, tmp_path):
    """With an artifact store whose objects a test can damage."""
    return replace(context, blobs=ObjectBlobs(context.database, f"file://{tmp_path / 'artifacts'}"))


@pytest.fixture
def lease(add_job, claim):
    return claim(add_job())


@pytest.fixture
def save(context, lease):
    """Stores a checkpoint of one file, which holds its step."""

    def do(step) -> Blob:
        blob = context.blobs.write([str(step).encode()])
        with context.database.begin() as session:
            files = [StoredFile("model.safetensors", "weights", blob)]
            add_checkpoint(session, lease, step=step, metrics={}, files=files)
        return blob

    return do


@pytest.fixture
def fetched(context, lease, tmp_path):
    """What lies in the run directory after the fetch: content by folder."""

    def do():
        directory = tmp_path / "run"
        directory.mkdir()
        with LeaseKeeper(context.database, lease, 60) as keeper:
            fetch_checkpoint(context, lease, keeper, directory)
        found = (directory / "checkpoints").glob("*/*")
        return {path.parent.name: path.read_text() for path in found}

    return do


def spoil(tmp_path, blob, content=b"x"):
    (tmp_path / "artifacts" / blob.id).write_bytes(content)


def test_the_newest_alone_is_fetched(save, fetched, records, lease):
    for step in (2, 4):
        save(step)
    assert fetched() == {"step-00000004": "4"}
    assert "checkpoint.damaged" not in records.codes(lease.job_id)


@pytest.mark.parametrize("how", ["altered", "short", "gone"])
def test_one_that_is_damaged_is_told_and_an_older_one_is_taken(
    how, save, fetched, records, lease, tmp_path
):
    save(2)
    blob = save(44)
    if how == "gone":
        (tmp_path / "artifacts" / blob.id).unlink()
    else:
        spoil(tmp_path, blob, b"45" if how == "altered" else b"4")
    assert fetched() == {"step-00000002": "2"}
    event = records.events(lease.job_id)[-1]
    assert (event.data["code"], event.level) == ("checkpoint.damaged", "warn")
    assert event.data["checkpoint"] == "step-00000044"
    assert event.data["instead"] == "step-00000002"


def test_where_all_are_damaged_nothing_is_begun_anew(save, fetched, tmp_path):
    for step in (2, 4):
        spoil(tmp_path, save(step))
    with pytest.raises(RunFailure) as caught:
        fetched()
    error = caught.value.error
    assert (error.code, error.fault, error.retryable) == ("checkpoint_damaged", "platform", True)
    assert "of step 4 model.safetensors" in error.message


def test_where_all_are_gone_the_store_is_taken_to_be_away(save, fetched, tmp_path):
    (tmp_path / "artifacts" / save(2).id).unlink()
    with pytest.raises(RunFailure) as caught:
        fetched()
    assert caught.value.error.code == "store_unavailable"


def test_rows_that_are_not_what_was_uploaded_are_not_trained_on(context, lease, database, blobs):
    # What is damaged is what the row says of them, which comes to the same.
    with database.begin() as session:
        session.connection().exec_driver_sql("update files set sha256 = 'other'")
    with LeaseKeeper(context.database, lease, 60) as keeper, pytest.raises(RunFailure) as caught:
        lay_out(replace(context, blobs=blobs), lease, keeper)
    assert caught.value.error.code == "store_unavailable"

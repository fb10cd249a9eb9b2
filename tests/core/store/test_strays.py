"""Objects that a killed process left behind are found, and nothing else is touched."""

import os
import time

import pytest

from core.store.objects import open_blobs
from core.store.tables import BlobRow

HOUR = 3600.0


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "objects"


@pytest.fixture
def objects(database, folder):
    return open_blobs(database, f"file://{folder}")


def make_old(path) -> None:
    then = time.time() - 2 * HOUR
    os.utime(path, (then, then))


def test_an_old_object_without_a_row_is_removed(database, objects, folder):
    kept, stray = objects.write([b"kept"]), objects.write([b"stray"])
    with database.begin() as session:
        session.delete(session.get_one(BlobRow, stray.id))
    for blob in (kept, stray):
        make_old(folder / blob.id)
    assert [name.rpartition("/")[2] for name in objects.sweep(HOUR)] == [stray.id]
    assert [path.name for path in folder.iterdir()] == [kept.id]


def test_an_object_that_may_still_get_its_row_is_left(database, objects, folder):
    young = objects.write([b"young"])
    with database.begin() as session:
        session.delete(session.get_one(BlobRow, young.id))
    assert objects.sweep(HOUR) == []
    assert (folder / young.id).exists()


def test_what_is_no_blob_is_not_ours(objects, folder):
    folder.mkdir()
    foreign = folder / "README"
    foreign.write_text("mine")
    make_old(foreign)
    assert objects.sweep(HOUR) == []


def test_a_store_that_was_never_written_to_has_none(objects, blobs):
    assert objects.sweep(0.0) == blobs.sweep(0.0) == []

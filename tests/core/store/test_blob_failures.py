"""A blob is whole or was never there, and its bytes leave nothing behind."""

import pytest
from sqlalchemy import func, select, text

from core.store.blobs import PIECE_BYTES
from core.store.objects import open_blobs
from core.store.tables import BlobPieceRow, BlobRow


class CutOff(Exception):
    """The source ended half-way."""


def broken_source():
    yield b"a" * (2 * PIECE_BYTES + 5)
    raise CutOff


def rows(database, table) -> int:
    with database.begin() as session:
        return session.scalar(select(func.count()).select_from(table))


def objects(tmp_path) -> list[str]:
    return [path.name for path in tmp_path.rglob("*") if path.is_file()]


def test_a_source_that_breaks_leaves_nothing(any_blobs, database, tmp_path):
    with pytest.raises(CutOff):
        any_blobs.write(broken_source())
    assert rows(database, BlobRow) == rows(database, BlobPieceRow) == 0
    assert objects(tmp_path) == []


def test_a_blob_that_is_being_written_cannot_be_seen(any_blobs, database):
    def watched():
        yield b"a" * (PIECE_BYTES + 1)
        assert rows(database, BlobRow) == rows(database, BlobPieceRow) == 0
        yield b"b"

    any_blobs.write(watched())
    assert rows(database, BlobRow) == 1


def test_deleting_leaves_neither_pieces_nor_objects(any_blobs, database, tmp_path):
    any_blobs.delete(any_blobs.write([b"abc"]).id)
    assert rows(database, BlobPieceRow) == 0
    assert objects(tmp_path) == []


def test_an_object_whose_row_cannot_be_written_is_taken_away(database, tmp_path):
    blobs = open_blobs(database, f"file://{tmp_path}")
    with database.begin() as session:
        session.execute(text("alter table blobs add constraint full_disk check (bytes > 3)"))
    with pytest.raises(Exception, match="full_disk"):
        blobs.write([b"abc"])
    assert objects(tmp_path) == []


def test_pieces_are_stored_uncompressed_and_out_of_line(database):
    query = text(
        "select attstorage from pg_attribute "
        "where attrelid = 'blob_pieces'::regclass and attname = 'content'"
    )
    with database.begin() as session:
        assert session.scalar(query) == "e"

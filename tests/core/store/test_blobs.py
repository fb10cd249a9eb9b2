"""What was written is what is read, whatever the sizes in which it came and is asked for."""

import hashlib
import random

import pytest
from sqlalchemy import select

from core.store.blobs import PIECE_BYTES, PostgresBlobs, pieces
from core.store.errors import NotFound
from core.store.objects import ObjectBlobs, open_blobs
from core.store.tables import BlobRow

CONTENT = random.Random(0).randbytes(2 * PIECE_BYTES + 777)


def cut(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


@pytest.mark.parametrize("size", [70_001, PIECE_BYTES, len(CONTENT)])
def test_a_blob_is_what_was_written(any_blobs, size):
    blob = any_blobs.write(cut(CONTENT, size))
    assert b"".join(any_blobs.read(blob.id)) == CONTENT
    assert blob.bytes == len(CONTENT)
    assert blob.sha256 == hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.parametrize("chunks", [[], [b""], [b"", b"a", b"", b"bc"], [b"abc"]])
def test_small_and_empty_chunks_are_no_trouble(any_blobs, chunks):
    blob = any_blobs.write(iter(chunks))
    assert b"".join(any_blobs.read(blob.id)) == b"".join(chunks)


@pytest.mark.parametrize(
    ("start", "stop"),
    [
        (0, 1),
        (0, None),
        (5, 5),
        (PIECE_BYTES - 1, PIECE_BYTES + 1),
        (PIECE_BYTES, 2 * PIECE_BYTES),
        (3, 2 * PIECE_BYTES + 5),
        (len(CONTENT) - 1, None),
        (len(CONTENT), None),
        (7, len(CONTENT) + 1000),
    ],
)
def test_a_range_is_that_part_and_no_more(any_blobs, start, stop):
    blob = any_blobs.write([CONTENT])
    assert b"".join(any_blobs.read(blob.id, start, stop)) == CONTENT[start:stop]


def test_a_deleted_blob_is_gone_and_deleting_again_is_no_error(any_blobs, database):
    blob = any_blobs.write([b"abc"])
    any_blobs.delete(blob.id)
    any_blobs.delete(blob.id)
    with pytest.raises(NotFound):
        list(any_blobs.read(blob.id))
    with database.begin() as session:
        assert session.scalars(select(BlobRow)).all() == []


def test_equal_contents_are_two_blobs(any_blobs):
    first, second = any_blobs.write([b"same"]), any_blobs.write([b"same"])
    any_blobs.delete(first.id)
    assert b"".join(any_blobs.read(second.id)) == b"same"


def test_a_blob_is_read_with_the_piece_size_it_was_written_with(database):
    blob = PostgresBlobs(database, piece_bytes=7).write([CONTENT[:100]])
    assert b"".join(PostgresBlobs(database, piece_bytes=64).read(blob.id, 3, 90)) == CONTENT[3:90]


@pytest.mark.parametrize("size", [1, 3, 10, 1000])
@pytest.mark.parametrize("lengths", [[], [0], [1], [9, 1, 0, 30], [100]])
def test_pieces_have_one_size_but_the_last(size, lengths):
    chunks = [bytes(range(length)) for length in lengths]
    found = list(pieces(chunks, size))
    assert b"".join(found) == b"".join(chunks)
    assert all(len(piece) == size for piece in found[:-1])
    assert all(found)


def test_the_setting_chooses_the_store(database, tmp_path):
    assert isinstance(open_blobs(database, "postgres:"), PostgresBlobs)
    assert isinstance(open_blobs(database, f"file://{tmp_path}"), ObjectBlobs)
    for wrong in ("", "postgres", str(tmp_path), "nonsense://x"):
        with pytest.raises(ValueError, match=r"URL|nonsense"):
            open_blobs(database, wrong)

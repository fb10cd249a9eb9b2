"""Memory is one piece, whatever the size; and a blob may be larger than any 32-bit number."""

import hashlib
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select

from core.store.blobs import PIECE_BYTES
from core.store.tables import BlobRow

MIB = 2**20
FEW_PIECES = 12 * PIECE_BYTES
CHUNK = bytes(range(256)) * 4096


@contextmanager
def peak_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit


def test_memory_does_not_grow_with_the_blob(any_blobs):
    count = 256
    with peak_below(FEW_PIECES):
        blob = any_blobs.write(CHUNK for _ in range(count))
        total = sum(len(piece) for piece in any_blobs.read(blob.id))
    assert total == blob.bytes == count * MIB


@pytest.mark.slow
def test_a_blob_may_be_larger_than_two_gigabytes(any_blobs, database):
    tail = b"tail!"
    source = (CHUNK for _ in range(2048))
    with peak_below(FEW_PIECES):
        blob = any_blobs.write(chunk for part in (source, [tail]) for chunk in part)
    assert blob.bytes == 2**31 + 5
    with database.begin() as session:
        assert session.scalar(select(BlobRow.bytes)) == 2**31 + 5
    beyond = b"".join(any_blobs.read(blob.id, 2**31 - 3, 2**31 + 5))
    assert beyond == CHUNK[-3:] + tail
    digest = hashlib.sha256()
    for chunk in any_blobs.read(blob.id):
        digest.update(chunk)
    assert digest.hexdigest() == blob.sha256
    any_blobs.delete(blob.id)

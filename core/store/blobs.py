"""Bytes that are kept: streamed in, streamed out, visible only when whole.

A blob is named by its row, and the row is written last; what was cut off half-way was never there.
Memory is one piece, whatever the size. Two implementations, chosen by the `artifacts_url` setting:
rows in Postgres (here) and objects on any fsspec file system (`core.store.objects`).
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import delete, insert
from sqlalchemy.orm import Session

from core.store.database import Database
from core.store.errors import NotFound
from core.store.ids import new_id
from core.store.tables import BlobPieceRow, BlobRow

PIECE_BYTES = 4 * 2**20
POSTGRES = "postgres:"


@dataclass(frozen=True, slots=True)
class Blob:
    """A whole blob: its id, its length in bytes and the SHA-256 of its content in hex."""

    id: str
    bytes: int
    sha256: str


class Blobs(Protocol):
    """Where bytes are kept."""

    def write(self, chunks: Iterable[bytes]) -> Blob:
        """Keep the whole of ``chunks``, of any lengths. If they raise, nothing is kept."""

    def read(self, blob_id: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Bytes [start, stop) of a blob, a piece at a time. Raises NotFound."""

    def delete(self, blob_id: str) -> None:
        """Forget a blob; unknown ids are no error, so that a deletion can be repeated."""

    def sweep(self, older_than_s: float) -> list[str]:
        """Remove bytes that are that old and no blob's, left by a process that died; returns their names."""


class PostgresBlobs:
    """Blobs as rows of `blob_pieces`, each PIECE_BYTES long, stored uncompressed."""

    def __init__(self, database: Database, piece_bytes: int = PIECE_BYTES) -> None:
        self._database = database
        self._piece_bytes = piece_bytes

    def write(self, chunks: Iterable[bytes]) -> Blob:
        """One transaction, so a blob and its pieces appear together or not at all."""
        blob_id = new_id("blob_")
        tally = Tally()
        with self._database.begin() as session:
            for number, piece in enumerate(pieces(chunks, self._piece_bytes)):
                tally.add(piece)
                session.execute(
                    insert(BlobPieceRow).values(blob_id=blob_id, number=number, content=piece)
                )
            blob = tally.blob(blob_id)
            add_blob_row(session, blob, f"{POSTGRES}{self._piece_bytes}")
        return blob

    def read(self, blob_id: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """A connection is borrowed for each piece and given back, so a slow reader holds none."""
        with self._database.read() as session:
            row = blob_row(session, blob_id)
        size = int(row.location.removeprefix(POSTGRES))
        stop = row.bytes if stop is None else min(stop, row.bytes)
        for number in range(start // size, -(-stop // size)):
            piece = self._piece(blob_id, number)
            offset = number * size
            yield piece[max(start - offset, 0) : stop - offset]

    def delete(self, blob_id: str) -> None:
        """The pieces go with the row."""
        with self._database.begin() as session:
            session.execute(delete(BlobRow).where(BlobRow.id == blob_id))

    def sweep(self, older_than_s: float) -> list[str]:  # noqa: ARG002 - no piece is older than its row
        """Pieces come and go with their row, in one transaction: nothing is ever left."""
        return []

    def _piece(self, blob_id: str, number: int) -> bytes:
        # A binary cursor, because Postgres' text form of bytes is twice as long.
        with self._database.read() as session:
            driver = session.connection().connection.driver_connection
            assert driver is not None
            with driver.cursor(binary=True) as cursor:
                cursor.execute(
                    "select content from blob_pieces where blob_id = %s and number = %s",
                    (blob_id, number),
                )
                found = cursor.fetchone()
        if found is None:
            raise NotFound("blob", blob_id)
        return bytes(found[0])


class Tally:
    """Counts and hashes bytes on their way."""

    def __init__(self) -> None:
        self._bytes = 0
        self._sha256 = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        """One more piece went by."""
        self._bytes += len(piece)
        self._sha256.update(piece)

    def blob(self, blob_id: str) -> Blob:
        """What went by, as a blob of this id."""
        return Blob(blob_id, self._bytes, self._sha256.hexdigest())


def pieces(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """``chunks`` cut anew into pieces of ``size`` bytes; the last may be shorter."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        while len(held) >= size:
            yield bytes(held[:size])
            del held[:size]
    if held:
        yield bytes(held)


def add_blob_row(session: Session, blob: Blob, location: str) -> None:
    """Make a stored blob visible."""
    session.add(BlobRow(id=blob.id, location=location, bytes=blob.bytes, sha256=blob.sha256))


def blob_row(session: Session, blob_id: str) -> BlobRow:
    """The row of a blob. Raises NotFound."""
    row = session.get(BlobRow, blob_id)
    if row is None:
        raise NotFound("blob", blob_id)
    return row

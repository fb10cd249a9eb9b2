"""Blobs as objects on any file system that fsspec speaks: ``file:///srv/artifacts``, ``s3://bucket/prefix``.

The object is written first and its row last: an object without a row is not a blob, so nothing half-written
can be seen. Credentials come from the environment, as the file system's own library reads them.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import fsspec
from sqlalchemy import delete, select

from core.store.blobs import (
    PIECE_BYTES,
    POSTGRES,
    Blob,
    Blobs,
    PostgresBlobs,
    Tally,
    add_blob_row,
    blob_row,
    pieces,
)
from core.store.database import Database
from core.store.errors import ArtifactsDown, ObjectMissing
from core.store.ids import new_id
from core.store.tables import BlobRow

BLOB_PREFIX = "blob_"


class ObjectBlobs:
    """Blobs below one URL, each an object named by its id."""

    def __init__(self, database: Database, url: str) -> None:
        self._database = database
        self._files, self._root = fsspec.core.url_to_fs(url, auto_mkdir=True)

    def write(self, chunks: Iterable[bytes]) -> Blob:
        """The object, then its row."""
        blob_id = new_id(BLOB_PREFIX)
        path = self._path(blob_id)
        tally = Tally()
        try:
            with _refusing("open", path):
                target = self._files.open(path, "wb")
            with _closing(target, path):
                for piece in pieces(chunks, PIECE_BYTES):
                    tally.add(piece)
                    with _refusing("write", path):
                        target.write(piece)
            blob = tally.blob(blob_id)
            with self._database.begin() as session:
                add_blob_row(session, blob, f"{self._files.unstrip_protocol(path)}")
        except BaseException:
            with suppress(ArtifactsDown):  # What is left has no row, so nobody sees it.
                self._forget(path)
            raise
        return blob

    def read(self, blob_id: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """From the object that the row names."""
        with self._database.begin() as session:
            row = blob_row(session, blob_id)
        left = (row.bytes if stop is None else min(stop, row.bytes)) - start
        with _refusing("read", row.location):
            source = fsspec.open(row.location, "rb").open()
        with source:
            with _refusing("read", row.location):
                source.seek(start)
            while left > 0:
                with _refusing("read", row.location):
                    piece = source.read(min(PIECE_BYTES, left))
                if not piece:
                    raise ObjectMissing(f"{row.location} ends {left} bytes early")
                left -= len(piece)
                yield piece

    def delete(self, blob_id: str) -> None:
        """The row, then the object."""
        with self._database.begin() as session:
            session.execute(delete(BlobRow).where(BlobRow.id == blob_id))
        self._forget(self._path(blob_id))

    def sweep(self, older_than_s: float) -> list[str]:
        """Objects without a row: their writer was killed before the row, or who deleted them after it."""
        with _refusing("list", self._root):
            found = self._files.find(self._root) if self._files.exists(self._root) else []
        paths = {path.rpartition("/")[2]: path for path in found}
        with self._database.begin() as session:
            known = set(session.scalars(select(BlobRow.id).where(BlobRow.id.in_(paths))))
        strays = [path for name, path in paths.items() if _is_blob(name) and name not in known]
        old = [path for path in strays if self._age_s(path) > older_than_s]
        for path in old:
            self._forget(path)
        return old

    def _age_s(self, path: str) -> float:
        with _refusing("look at", path):
            modified: datetime = self._files.modified(path)
        return (datetime.now(UTC) - modified.astimezone(UTC)).total_seconds()

    def _path(self, blob_id: str) -> str:
        return f"{self._root}/{blob_id}"

    def _forget(self, path: str) -> None:
        with _refusing("remove", path):
            if self._files.exists(path):
                self._files.rm(path)


def _is_blob(name: str) -> bool:
    return name.startswith(BLOB_PREFIX)


@contextmanager
def _refusing(what: str, path: str) -> Iterator[None]:
    """Whatever a file system raises, in whichever library's words, is the store's refusal."""
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectMissing(f"cannot {what} {path}: it is not there: {error}") from error
    except Exception as error:
        raise ArtifactsDown(f"cannot {what} {path}: {type(error).__name__}: {error}") from error


@contextmanager
def _closing(target: Any, path: str) -> Iterator[None]:
    """Close the object; a refusal to do so counts only if nothing else went wrong."""
    try:
        yield
    except BaseException:
        with suppress(Exception):
            target.close()
        raise
    with _refusing("finish", path):
        target.close()


def open_blobs(database: Database, artifacts_url: str) -> Blobs:
    """The store that the setting asks for. Raises ValueError for a URL that no file system speaks."""
    if artifacts_url == POSTGRES:
        return PostgresBlobs(database)
    if "://" not in artifacts_url:
        raise ValueError(
            f"artifacts_url: {artifacts_url!r} is not a URL; "
            f"use 'postgres:', or one such as file:///srv/artifacts or s3://bucket/prefix"
        )
    return ObjectBlobs(database, artifacts_url)

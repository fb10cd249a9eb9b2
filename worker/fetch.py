"""Stored bytes onto this disk, and whether they are what they were when they were stored."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from core.store.errors import ObjectMissing
from core.store.tables import FileRow
from worker.context import WorkerContext
from worker.keeper import LeaseKeeper
from worker.pen import patiently


@dataclass(frozen=True, slots=True)
class Fetch:
    """A stored file and its place in the run directory."""

    file: FileRow
    target: Path


class Damaged(Exception):
    """The bytes of a file are not what its row says; `gone`: there are none, or not all."""

    def __init__(self, file: FileRow, what: str, *, gone: bool = False) -> None:
        self.gone = gone
        super().__init__(f"{file.filename} {what}")


def fetch_file(
    context: WorkerContext, keeper: LeaseKeeper, fetch: Fetch, *, wait_if_gone: bool = True
) -> None:
    """Write the file to its target. Raises Damaged, NotFound if it was deleted, RunFailure if none is had.

    ``wait_if_gone``: take a store that says that it has no such object for one that is away. Raises
    LeaseLost or WishHeard as soon as the job is not to be run here any more.
    """
    patiently(
        lambda: _fetch(context, keeper, fetch, wait_if_gone=wait_if_gone),
        keeper,
        "file not fetched",
        limit_s=context.settings.upload_limit_s,
    )


def _fetch(
    context: WorkerContext, keeper: LeaseKeeper, fetch: Fetch, *, wait_if_gone: bool
) -> None:
    keeper.heed()
    fetch.target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        with fetch.target.open("wb") as out:
            for piece in context.blobs.read(fetch.file.blob_id):
                out.write(piece)
                digest.update(piece)
                keeper.heed()
    except ObjectMissing as error:
        if wait_if_gone:
            raise
        raise Damaged(fetch.file, f"is not there: {error}", gone=True) from error
    if digest.hexdigest() != fetch.file.sha256:
        raise Damaged(fetch.file, "does not have the sum with which it was stored")

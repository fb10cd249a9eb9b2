"""Checkpoints go from the run directory into the artifact store, beside the training."""

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from core.spec.events import Saved
from core.spec.run import MANIFEST_FILE, Manifest
from core.store.blobs import Blob
from core.store.checkpoints import StoredFile, add_checkpoint, drop_old_checkpoints
from core.store.database import DatabaseDown
from core.store.leases import Lease
from worker.context import WorkerContext
from worker.keeper import LeaseKeeper

log = logging.getLogger(__name__)

READ_BYTES = 2**20
RETRY_S = 2.0
MANIFEST_KIND = "manifest"


class Uploader:
    """One thread, so checkpoints arrive in the order of their steps."""

    def __init__(self, context: WorkerContext, lease: Lease, keeper: LeaseKeeper) -> None:
        self._context = context
        self._lease = lease
        self._keeper = keeper
        self._pool = ThreadPoolExecutor(1, "upload")
        self._jobs: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._pool.shutdown(cancel_futures=error is not None)

    def submit(self, directory: Path, saved: Saved) -> None:
        """Store a checkpoint as soon as those before it are stored."""
        self._jobs.append(self._pool.submit(self._upload, directory / saved.path, saved))

    def finish(self) -> None:
        """Wait until everything is stored. Raises what an upload raised."""
        for job in self._jobs:
            job.result()

    def _upload(self, folder: Path, saved: Saved) -> None:
        while True:
            self._keeper.check()
            try:
                return self._store(folder, saved)
            except DatabaseDown as error:
                log.warning("upload failed, trying again: %s", str(error).splitlines()[0])
                self._keeper.pause(RETRY_S)
            except FileNotFoundError:
                # The trainer drops old checkpoints, whole folders at once, and waits for nobody.
                if folder.exists():
                    raise
                return log.info("step %d was dropped before it could be stored", saved.step)

    def _store(self, folder: Path, saved: Saved) -> None:
        files: list[StoredFile] = []
        try:
            for path, kind in _contents(folder):
                files.append(StoredFile(path, kind, self._write(folder / path)))
            with self._context.database.begin() as session:
                add_checkpoint(
                    session, self._lease, step=saved.step, metrics=saved.metrics, files=files
                )
                keep = self._lease.spec.trainer.checkpoint.keep_last
                dropped = drop_old_checkpoints(session, self._lease, keep, saved.best_step)
        except BaseException:
            self._forget([file.blob.id for file in files])
            raise
        self._forget(dropped)

    def _write(self, path: Path) -> Blob:
        return self._context.blobs.write(_chunks(path))

    def _forget(self, blob_ids: list[str]) -> None:
        for blob_id in blob_ids:
            try:
                self._context.blobs.delete(blob_id)
            except DatabaseDown:
                log.warning("blob %s is left to the janitor", blob_id)


def _contents(folder: Path) -> list[tuple[str, str]]:
    manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    return [*((file.path, file.kind) for file in manifest.files), (MANIFEST_FILE, MANIFEST_KIND)]


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            yield chunk

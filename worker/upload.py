"""Checkpoints go from the run directory into the artifact store, beside the training.

Neither waits for the other: a store that is slow or away delays no step, and the trainer drops old
checkpoints without asking. At the end of the run the store is waited for, while anything moves.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from core.spec.events import Saved
from core.spec.run import MANIFEST_FILE, Manifest
from core.store.checkpoints import StoredFile, add_checkpoint, drop_old_checkpoints
from core.store.database import DatabaseDown
from core.store.errors import ArtifactsDown
from core.store.leases import Lease
from core.store.remarks import tell_skipped
from worker.context import WorkerContext
from worker.keeper import LeaseKeeper
from worker.pen import Pen, patiently, store_unavailable

log = logging.getLogger(__name__)

READ_BYTES = 2**20
LOOK_S = 0.5
LEAVE_S = 2.0
MANIFEST_KIND = "manifest"


class Uploader:
    """One thread, so checkpoints arrive in the order of their steps. ``clock`` is monotonic seconds.

    What hangs in a store cannot be ended, so it is left behind; without the lease it can write nothing.
    """

    def __init__(
        self,
        context: WorkerContext,
        lease: Lease,
        keeper: LeaseKeeper,
        pen: Pen,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._lease = lease
        self._keeper = keeper
        self._pen = pen
        self._clock = clock
        self._waiting: SimpleQueue[tuple[Path, Saved] | None] = SimpleQueue()
        self._open = 0
        self._idle = threading.Condition()
        self._error: BaseException | None = None
        self._moved_at = clock()
        self._hurried_at: float | None = None
        self._thread = threading.Thread(target=self._work, name="upload", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join(LEAVE_S)

    def submit(self, directory: Path, saved: Saved) -> None:
        """Store a checkpoint as soon as those before it are stored."""
        with self._idle:
            self._open += 1
        self._waiting.put((directory / saved.path, saved))

    def finish(self, within_s: float | None = None) -> None:
        """Wait until everything is stored: while bytes move, or for ``within_s`` in all.

        A job that is to be cancelled does not wait for longer than a trainer has to stop. Raises
        what an upload raised, LeaseLost, and RunFailure if the store took nothing for too long.
        """
        began = self._clock()
        with self._idle:
            while not self._idle.wait_for(lambda: self._open == 0, LOOK_S):
                self._keeper.check()
                self._lose_patience(began, within_s)
        if self._error is not None:
            raise self._error

    def _lose_patience(self, began: float, within_s: float | None) -> None:
        now, limit_s = self._clock(), self._context.settings.upload_limit_s
        if within_s is not None and now - began > within_s:
            raise store_unavailable(f"checkpoints were not stored within {within_s:g} s")
        self._heed_cancel(now)
        if now - max(began, self._moved_at) > limit_s:
            raise store_unavailable(f"it took nothing for {limit_s:g} s")

    def _heed_cancel(self, now: float) -> None:
        if self._keeper.wish != "cancel":
            self._hurried_at = None
            return
        self._hurried_at = now if self._hurried_at is None else self._hurried_at
        if now - self._hurried_at > (grace_s := self._context.settings.stop_grace_s):
            raise store_unavailable(f"checkpoints were not stored {grace_s:g} s after the cancel")

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            try:
                self._upload(*job)
            except BaseException as error:  # noqa: BLE001 - raised where the run is waited for
                self._error = self._error or error
            with self._idle:
                self._open -= 1
                self._idle.notify_all()

    def _upload(self, folder: Path, saved: Saved) -> None:
        self._keeper.check()
        try:
            patiently(lambda: self._store(folder, saved), self._keeper, "upload failed")
        except FileNotFoundError:
            # The trainer drops old checkpoints, whole folders at once, and waits for nobody.
            if folder.exists():
                raise
            log.info("step %d was dropped before it could be stored", saved.step)
            self._pen.write(lambda session: tell_skipped(session, self._lease, step=saved.step))

    def _store(self, folder: Path, saved: Saved) -> None:
        files: list[StoredFile] = []
        write = self._context.blobs.write
        try:
            for path, kind in _contents(folder):
                files.append(StoredFile(path, kind, write(self._chunks(folder / path))))
            self._keeper.check()
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

    def _chunks(self, path: Path) -> Iterator[bytes]:
        with path.open("rb") as file:
            while chunk := file.read(READ_BYTES):
                self._moved_at = self._clock()
                yield chunk

    def _forget(self, blob_ids: list[str]) -> None:
        for blob_id in blob_ids:
            try:
                self._context.blobs.delete(blob_id)
            except (*DatabaseDown, ArtifactsDown):
                log.warning("blob %s is left to the janitor", blob_id)


def _contents(folder: Path) -> list[tuple[str, str]]:
    manifest = Manifest.model_validate_json((folder / MANIFEST_FILE).read_bytes())
    return [*((file.path, file.kind) for file in manifest.files), (MANIFEST_FILE, MANIFEST_KIND)]

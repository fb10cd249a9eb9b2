"""The sweep: takes jobs back from workers that are not heard from, and rings for what nobody heard.

It expires nothing before it has itself seen the database up for one whole lease: after an outage every
lease looks expired, though its worker is well and about to renew it. Of several janitors one sweeps; the
others stand by, watch the database too, and so can go on at once where a dead one stopped.
"""

import logging
import threading
import time
from collections.abc import Callable

from kombu.exceptions import OperationalError

from core.data.file_check import unfit_file
from core.spec.bell import PREPARE_TASK, TRAIN_TASK
from core.store.attempts import expire_leases
from core.store.audit import forget_old_writes
from core.store.database import DatabaseDown
from core.store.errors import ArtifactsDown
from core.store.files import expire_files, orphaned_blobs, unprepared_files
from core.store.jobs import jobs_waiting_for_files, settle_files
from core.store.leader import Leadership
from core.store.queue import queued_jobs
from core.store.replays import forget_old_requests
from core.store.uploads import expire_uploads
from core.store.workers import forget_silent_workers, idle_workers
from worker.context import WorkerContext
from worker.results import write_missing_results

log = logging.getLogger(__name__)

DAY_S = 86_400.0
Ring = tuple[str, str]
"""A task and the id that it is given."""


class Janitor:
    """One sweep at a time. ``ring`` sends a task an id; ``clock`` is monotonic seconds."""

    def __init__(
        self,
        context: WorkerContext,
        ring: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._settings = context.settings
        self._ring = ring
        self._clock = clock
        self._leadership = Leadership(context.database)
        self._leads = False
        self._up_since: float | None = None
        self._rung_at: dict[str, float] = {}
        self._swept_at: float | None = None

    def run(self, end: threading.Event) -> None:
        """Sweep until ``end`` is set."""
        while not end.wait(self._settings.sweep_s):
            self.sweep()
        self.close()

    def close(self) -> None:
        """Let another one sweep."""
        self._leadership.release()
        self._leads = False

    def sweep(self) -> None:
        """Look once. A database or a broker that is away is waited for."""
        try:
            self._sweep()
        except DatabaseDown as error:
            self._up_since, self._leads = None, False
            log.warning("the database is away: %s", str(error).splitlines()[0])

    def _sweep(self) -> None:
        self._ask_to_lead()
        if self._up_since is None:
            self._up_since = self._clock()
        if not self._leads:
            return
        with self._context.database.begin() as session:
            for job in jobs_waiting_for_files(session):
                settle_files(session, job, unfit_file)
            queued, files = queued_jobs(session, self._settings.quotas), unprepared_files(session)
            forget_old_requests(session)
            forget_old_writes(session, self._settings.audit_days * DAY_S)
            forget_silent_workers(session)
        write_missing_results(self._context)
        if self._clock() - self._up_since >= self._settings.lease_s:
            queued += self._expire()
            self._delete_orphans()
            self._sweep_store()
        self._ring_for([(TRAIN_TASK, id) for id in queued], [(PREPARE_TASK, id) for id in files])

    def _ask_to_lead(self) -> None:
        led, self._leads = self._leads, self._leadership.held()
        if led != self._leads:
            log.info("this janitor sweeps from now on" if self._leads else "another janitor sweeps")

    def _expire(self) -> list[str]:
        with self._context.database.begin() as session:
            expired = expire_leases(session, self._settings.retries)
        for job_id in expired:
            log.warning("job %s lost its worker; it is queued again", job_id)
        return expired

    def _delete_orphans(self) -> None:
        with self._context.database.begin() as session:
            late = expire_uploads(session) + expire_files(session)
            orphans = late + orphaned_blobs(session, self._settings.orphan_blob_s)
        for blob_id in orphans:
            log.warning("blob %s belongs to no file; deleted", blob_id)
            try:
                self._context.blobs.delete(blob_id)
            except ArtifactsDown as error:  # Its row is gone; what is left is swept with the store.
                log.warning("%s", error)

    def _sweep_store(self) -> None:
        """Once in the time after which bytes without an owner are old: a store may be slow to list."""
        now, patience = self._clock(), self._settings.orphan_blob_s
        if self._swept_at is not None and now - self._swept_at < patience:
            return
        self._swept_at = now
        try:
            for name in self._context.blobs.sweep(patience):
                log.warning("%s belongs to no blob; deleted", name)
        except ArtifactsDown as error:
            log.warning("the artifact store was not swept: %s", error)

    def _ring_for(self, jobs: list[Ring], files: list[Ring]) -> None:
        """A ring for a job says "look at the queue", so a worker that is idle needs one, and no more."""
        ids = {id for _, id in jobs + files}
        self._rung_at = {id: at for id, at in self._rung_at.items() if id in ids}
        unrung = [ring for ring in jobs if self._is_due(ring)]
        self._give(unrung[: self._listeners()] if unrung else [])
        self._give([ring for ring in files if self._is_due(ring)])

    def _listeners(self) -> int:
        """At least one: not every worker that listens can say so."""
        with self._context.database.begin() as session:
            return max(1, idle_workers(session))

    def _is_due(self, ring: Ring) -> bool:
        last = self._rung_at.get(ring[1], float("-inf"))
        return self._clock() - last >= self._settings.ring_again_s

    def _give(self, rings: list[Ring]) -> None:
        now = self._clock()
        for task, id in rings:
            try:
                self._ring(task, id)
            except OperationalError as error:
                log.warning("the broker is away: %s", error)
                return
            self._rung_at[id] = now

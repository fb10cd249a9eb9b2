"""Watches one trainer: takes its events into rows, hands it the user's wishes, and concludes."""

import time
from pathlib import Path

from core.spec.errors import JobError
from core.spec.events import Failed, Finished, RunEvent, Saved, Stopped
from core.store.attempts import fail_attempt, stop_attempt, succeed_job
from core.store.database import Session
from core.store.leases import Lease
from core.store.record import record_events
from worker.ending import error_of
from worker.follow import Follower
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.settings import WorkerSettings
from worker.trainer import Trainer
from worker.upload import Uploader

STOPPED = "The trainer was stopped; the job goes on from its checkpoint"


class Watch:
    """The eyes on one run directory and its trainer."""

    def __init__(
        self,
        directory: Path,
        lease: Lease,
        trainer: Trainer,
        uploader: Uploader,
        keeper: LeaseKeeper,
        pen: Pen,
        settings: WorkerSettings,
    ) -> None:
        self._directory = directory
        self._lease = lease
        self._trainer = trainer
        self._uploader = uploader
        self._keeper = keeper
        self._pen = pen
        self._settings = settings
        self._follower = Follower(directory)
        self._last: RunEvent | None = None

    def until_exit(self) -> int:
        """Follow the run until the trainer has ended; returns its exit code. Raises LeaseLost."""
        deadline: float | None = None
        while True:
            exit_code = self._trainer.wait(self._settings.poll_s)
            self._take_events()
            self._keeper.check()
            if exit_code is not None:
                return exit_code
            if self._keeper.wish and deadline is None:
                self._trainer.ask_to_stop()
                deadline = time.monotonic() + self._settings.stop_grace_s
            if deadline is not None and time.monotonic() > deadline:
                self._trainer.kill()

    def stop_and_save(self) -> None:
        """The worker is told to end: let the trainer save what it has, and store that."""
        self._trainer.ask_to_stop()
        self._trainer.wait(self._settings.stop_grace_s)
        self._take_events()
        self._uploader.finish()

    def conclude(self, exit_code: int) -> None:
        """Write how the attempt ended. Raises LeaseLost."""
        last = self._last
        if isinstance(last, Finished) and exit_code == 0:
            tokens = last.trained_tokens
            self._pen.write(
                lambda session: succeed_job(session, self._lease, trained_tokens=tokens)
            )
        elif isinstance(last, Stopped):
            self._pen.write(lambda session: stop_attempt(session, self._lease, STOPPED))
        else:
            self._fail(last.error if isinstance(last, Failed) else None, exit_code)

    def _fail(self, said: JobError | None, exit_code: int) -> None:
        error = said or error_of(exit_code, self._directory)
        retries = self._settings.retries
        self._pen.write(lambda session: fail_attempt(session, self._lease, error, retries))

    def _take_events(self) -> None:
        first = self._follower.line
        events = self._follower.new_events()
        if not events:
            return

        def record(session: Session) -> None:
            record_events(session, self._lease, first, events)

        self._pen.write(record)
        for event in events:
            if isinstance(event, Saved):
                self._uploader.submit(self._directory, event)
        self._last = events[-1]
        self._follower.take()

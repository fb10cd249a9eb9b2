"""Watches one trainer: takes its events into rows, hands it the user's wishes, and concludes."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from core.spec.errors import ExitCode, JobError, RunFailure
from core.spec.events import Failed, Finished, RunEvent, Saved, Stopped
from core.store.attempts import succeed_job
from core.store.database import Session
from core.store.leases import Lease, Wish
from core.store.record import record_events
from core.store.remarks import tell_stalled
from worker.ending import error_of, stalled
from worker.follow import Follower
from worker.host_memory import oom_kills
from worker.keeper import LeaseKeeper
from worker.pen import Pen
from worker.pulse import Pulse
from worker.results import Results
from worker.settings import WorkerSettings
from worker.stopping import Stopping
from worker.trainer import Trainer
from worker.upload import Uploader

MOST_LINES = 32
"""Written at once: whoever wants the job's row, as a renewal or a wish, need not wait for hundreds."""
STOPPED = "The trainer was stopped; the job goes on from its checkpoint"


class Watch:
    """The eyes on one run directory and its trainer. ``clock`` is monotonic seconds."""

    def __init__(
        self,
        directory: Path,
        lease: Lease,
        trainer: Trainer,
        uploader: Uploader,
        keeper: LeaseKeeper,
        pen: Pen,
        settings: WorkerSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._lease = lease
        self._trainer = trainer
        self._uploader = uploader
        self._keeper = keeper
        self._pen = pen
        self._settings = settings
        self._stopping = Stopping(trainer, settings.stop_grace_s)
        self._follower = Follower(directory)
        self._pulse = Pulse(settings.stall_limits, clock)
        self._oom_kills = oom_kills()
        self._last: RunEvent | None = None
        self._stalled: JobError | None = None

    def until_exit(self) -> int:
        """Follow the run until the trainer has ended; returns its exit code. Raises LeaseLost.

        As soon as the user wishes the run to end, the trainer is asked to, and killed at its deadline.
        """
        self._keeper.when_wished(self._stopping.begin)
        try:
            while True:
                exit_code = self._trainer.wait(self._settings.poll_s)
                self._take_events()
                self._keeper.check()
                if exit_code is not None:
                    return exit_code
                if self._pulse.stalled and not self._stopping.begun:
                    self._end_stalled()
        finally:
            self._stopping.end()

    def stop_and_save(self) -> None:
        """The worker is told to end: let the trainer save what it has, and store that.

        Half as long again as the trainer may take is given to the store. Raises RunFailure if it takes
        longer.
        """
        self._trainer.ask_to_stop()
        self._trainer.wait(self._settings.stop_grace_s)
        self._take_events()
        self._uploader.finish(within_s=self._settings.stop_grace_s / 2)

    def conclude(self, exit_code: int, results: Results) -> None:
        """Write how the attempt ended, unless it failed. Raises LeaseLost, and RunFailure with the reason."""
        last = self._last
        if isinstance(last, Finished) and exit_code == ExitCode.done:
            tokens = last.trained_tokens
            results.end(
                lambda session, csv: succeed_job(
                    session, self._lease, trained_tokens=tokens, results=csv
                )
            )
        elif isinstance(last, Failed):
            raise RunFailure(last.error, ExitCode.unexpected)
        elif isinstance(last, Stopped) or self._stopping.begun:
            results.stop(STOPPED)
        else:
            short = oom_kills() > self._oom_kills
            reason = self._stalled or error_of(exit_code, self._directory, host_short=short)
            raise RunFailure(reason, ExitCode.unexpected)

    def _end_stalled(self) -> None:
        step, seconds = self._pulse.step, self._pulse.silent_s
        self._stalled = stalled(step, seconds)
        self._pen.write(
            lambda session: tell_stalled(session, self._lease, step=step, seconds=seconds)
        )
        self._trainer.kill()

    def _take_events(self) -> None:
        events = self._follower.new_events()
        # Before anything is written: the database may be away for longer than a run may be silent.
        self._pulse.hear(events, self._follower.beats())
        if not events:
            return

        for first in range(0, len(events), MOST_LINES):
            self._record(self._follower.line + first, events[first : first + MOST_LINES])
        for event in events:
            if isinstance(event, Saved):
                self._uploader.submit(self._directory, event)
        self._last = events[-1]
        self._follower.take()

    def _record(self, first: int, events: Sequence[RunEvent]) -> None:
        def record(session: Session) -> Wish | None:
            return record_events(session, self._lease, first, events)

        self._keeper.hear(self._pen.write(record))

"""A child of the supervisor: what is to run, and one life of it.

The one idea: each life is a session of its own, so a Ctrl-C of the terminal reaches the
supervisor alone, and whatever the child leaves behind can be killed as one group.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from castalia.errors import ChildCannotStartError
from castalia.guard import Guard, kill_group

LOG_LIMIT_BYTES = 16 * 2**20
TAIL_BYTES = 8192
_SIGNAL_NAMES = {number.value: number.name for number in signal.Signals}


@dataclass(frozen=True, slots=True)
class Child:
    """A program to keep running.

    `env` is added to the supervisor's own. `ready` is asked until it says yes; without it, a
    child that has lived for a second counts as ready. `where` is shown then (an address).
    The leader gets `stop_signal`, and its whole group SIGKILL `stop_grace_s` later. One that is
    not ready after `start_limit_s` counts as crashed.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] | None = None
    where: str = ""
    stop_signal: signal.Signals = signal.SIGTERM
    stop_grace_s: float = 10.0
    start_limit_s: float = 60.0


class Life:
    """One run of a child, from its fork to the end of its group; output is appended to `log`."""

    def __init__(self, child: Child, log: Path, guard: Guard) -> None:
        """Start it under guard; raises ChildCannotStartError when it cannot be executed."""
        self._guard = guard
        self._child = child
        self._log = log
        _turn_over(log)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._log_start = os.fstat(descriptor).st_size
        try:
            self._process = subprocess.Popen(  # noqa: S603 - no shell
                child.argv,
                env={**os.environ, **child.env},
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
                # Safe: the supervisor is single-threaded, and this is one write to a pipe.
                preexec_fn=self._report_to_guard,  # noqa: PLW1509
            )
        except OSError as failure:
            reason = failure.strerror or str(failure)
            raise ChildCannotStartError(child.name, child.argv[0], reason) from failure
        finally:
            os.close(descriptor)
        self.pid = self._process.pid

    def end(self) -> str | None:
        """Tell how the leader ended ("exit 3", "SIGKILL"), or None while it lives."""
        code = self._process.poll()
        if code is None:
            return None
        return f"exit {code}" if code >= 0 else _SIGNAL_NAMES.get(-code, f"signal {-code}")

    def ask_to_stop(self) -> None:
        """Send the stop signal to the leader, which knows how to end its own processes."""
        self._process.send_signal(self._child.stop_signal)

    def bury(self) -> None:
        """Kill what is left of the group, reap the leader, tell the guard."""
        kill_group(self.pid)
        self._process.wait()
        self._guard.forget(self.pid)

    def guard_with(self, guard: Guard) -> None:
        """Move to a new guard, when the former one was killed."""
        self._guard = guard
        guard.watch(self.pid, self._child.stop_signal, self._child.stop_grace_s)

    def last_lines(self, count: int) -> list[str]:
        """Return the last non-empty lines that this life wrote, at most `count`."""
        with self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]

    def _report_to_guard(self) -> None:
        self._guard.watch(os.getpid(), self._child.stop_signal, self._child.stop_grace_s)


def _turn_over(log: Path) -> None:
    """Keep one older log, so that a service which restarts for years does not fill the disk."""
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_name(log.name + ".1"))

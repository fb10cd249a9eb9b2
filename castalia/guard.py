"""The guard: a small process that ends the children when the supervisor dies without a word.

The one idea: it reads a pipe whose only writer is the supervisor, so the end of the file is the
end of the supervisor, SIGKILL included. Every child writes its own pid into the pipe between fork
and exec, with the pipe still open: there is no moment in which a child lives and the guard could
miss it. (A parent-death signal would not do: the kernel clears it when a process changes its
user namespace, as Postgres does under root.)

Run as a script it is the guard, on the standard library alone; `Guard` is the supervisor's end.

    start PID SIGNAL GRACE     a child lives, and is stopped so
    end PID                    it is gone, and its group with it
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

STEP_S = 0.05


class Guard:
    """Starts the guard; `keep_open` are descriptors that it holds for as long as it lives."""

    def __init__(self, keep_open: tuple[int, ...] = ()) -> None:
        label = f"castalia guard of {os.getpid()}"
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-I", "-S", __file__, label],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=keep_open,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin

    @property
    def alive(self) -> bool:
        """Whether it still stands behind us."""
        return self._process.poll() is None

    def watch(self, pid: int, stop_signal: int, grace_s: float) -> None:
        """Take a child under guard; safe between fork and exec (one short write)."""
        self._tell(f"start {pid} {int(stop_signal)} {grace_s}\n")

    def forget(self, pid: int) -> None:
        """Drop a child that is gone: its number may soon be another process."""
        with contextlib.suppress(BrokenPipeError):  # a dead guard remembers nothing
            self._tell(f"end {pid}\n")

    def close(self) -> None:
        """End the guard, and with it every child that was not forgotten."""
        self._pipe.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        os.write(self._pipe.fileno(), line.encode())


def main() -> None:
    """Follow the pipe to its end, then stop what still lives, last started first."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    living: dict[int, tuple[int, float]] = {}
    for line in sys.stdin:
        word, pid, *manner = line.split()
        if word == "start":
            living[int(pid)] = (int(manner[0]), float(manner[1]))
        else:
            living.pop(int(pid), None)
    for leader, (stop_signal, grace_s) in reversed(living.items()):
        stop(leader, stop_signal, grace_s)


def stop(leader: int, stop_signal: int, grace_s: float) -> None:
    """Ask the leader to end, wait up to `grace_s` seconds, then kill its whole group."""
    with contextlib.suppress(ProcessLookupError):  # Ended; its group may have stragglers.
        os.kill(leader, stop_signal)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            os.kill(leader, 0)
            time.sleep(STEP_S)
    kill_group(leader)


def kill_group(leader: int) -> None:
    """Kill every process of the group; a group that is gone already is fine."""
    # macOS answers with a lack of permission when only zombies are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""The child process that trains. It dies when its parent dies, and it stops when it is asked to."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from core.spec.run import LOG_FILE, SPEC_FILE
from worker.ranks_left import RanksLeft

OURS = ("CASTALIA_DATABASE_URL", "CASTALIA_BROKER_URL")
"""What a trainer has no use for, and could only spill."""


class Trainer:
    """`python -m core.train` on a run directory.

    The parent holds the writing end of a pipe and never writes; when it dies, however it dies, the child
    reads the end of the pipe and ends itself. A signal on parent death would do so for one thread only.
    ``cache`` and ``cache_bytes``: where encoded rows are kept for other jobs, and how many. ``gpus``: those
    that it sees; None: those that its parent sees. On several ``devices`` the child starts a process for
    each, which it may not survive: they are ended with it.
    """

    def __init__(
        self,
        directory: Path,
        cache: Path,
        cache_bytes: int,
        *,
        gpus: str | None = None,
        devices: int = 1,
    ) -> None:
        self._ranks = RanksLeft(directory) if devices > 1 else None
        reading, self._alive = os.pipe()
        command = [
            sys.executable,
            "-P",
            "-m",
            "core.train",
            str(directory / SPEC_FILE),
            "--out",
            str(directory),
            "--watch-fd",
            str(reading),
            "--cache",
            str(cache),
            "--cache-bytes",
            str(cache_bytes),
        ]
        with (directory / LOG_FILE).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(reading,),
                env=_environment(gpus),
            )
        os.close(reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._alive)

    def wait(self, seconds: float) -> int | None:
        """The exit code once the child has ended, or None after ``seconds``."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_stop(self) -> None:
        """Finish the step, save, and end with ExitCode.interrupted."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now, and be sure that it ended, and with it what it had started for its devices."""
        self._process.kill()
        self._process.wait()
        if self._ranks is not None:
            self._ranks.end()


def _environment(gpus: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in OURS}
    return kept if gpus is None else kept | {"CUDA_VISIBLE_DEVICES": gpus}

"""A serving loop from outside: started when first asked, asked one line at a time, killed when late.

Whatever the other side does (die, write rubbish, say nothing) is an error of that one grading; the next
is asked of a fresh process.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.graders.closing import Closing
from core.graders.inside.confine import Limits
from core.graders.sandbox import ENVIRONMENT, command

SECONDS_TO_START = 120.0  # libraries may be read from a cold disk
GRACE_SECONDS = 5.0
LONGEST_ANSWER_BYTES = 2**17
MOST_DETAILS = 500


@dataclass(frozen=True, slots=True)
class Job:
    """What a loop is to serve; ``strangers``: it runs source of a user's."""

    name: str
    settings: dict[str, Any]
    strangers: bool = False


class GradingFailed(Exception):
    """One grading came to nothing; ``late``: by running out of time."""

    def __init__(self, reason: str, *, late: bool = False) -> None:
        self.late = late
        super().__init__(reason[:MOST_DETAILS])


class BenchDown(Exception):
    """The process that is to grade does not start."""


class Bench(Closing):
    """One process and what it serves. A context manager; not to be shared by threads at one time."""

    def __init__(self, job: Job, limits: Limits) -> None:
        self.job = job
        self.limits = limits
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, payload: dict[str, Any]) -> float:
        """The reward, finite. Raises GradingFailed, or BenchDown and SandboxUnavailable."""
        self.start()
        answer = self._exchange(payload, self.limits.seconds + GRACE_SECONDS)
        if answer is None:
            raise GradingFailed("the process that graded it ended, or went on for too long")
        return _reward(answer)

    def start(self) -> None:
        """Start the process unless it runs. Raises BenchDown with the reason, or SandboxUnavailable."""
        if self.process is not None:
            return
        self.process = subprocess.Popen(  # noqa: S603 - the command is ours
            command(strangers=self.job.strangers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
            cwd="/",
            start_new_session=True,
        )
        hello = {
            "job": self.job.name,
            "settings": self.job.settings,
            "seconds": self.limits.seconds,
            "memory_bytes": self.limits.memory_bytes,
        }
        answer = self._exchange(hello, SECONDS_TO_START)
        if answer is None or answer.get("ready") is not True:
            self.close()
            raise BenchDown(str((answer or {}).get("reason", "it ended before it began")))

    def close(self) -> None:
        """End the process and everything that it started."""
        process, self.process = self.process, None
        if process is None:
            return
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # what it did not read is lost with it
                    pipe.close()

    def _exchange(self, document: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Send a line and hear one; None, and no process any more, where none was heard."""
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with _killed_after(seconds, process), contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(LONGEST_ANSWER_BYTES)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            self.close()
            return None
        return answer


def _reward(answer: dict[str, Any]) -> float:
    """The reward in what a grading said about itself, which may be anything."""
    ended = str(answer.get("ended"))
    late = ended == "ran out of time"
    try:
        said = json.loads(str(answer.get("said")))
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    if isinstance(said.get("error"), str):
        raise GradingFailed(said["error"])
    reward = said.get("reward")
    if not isinstance(reward, float) or not math.isfinite(reward):
        raise GradingFailed(f"no reward: its process {ended}", late=late)
    return reward


@contextlib.contextmanager
def _killed_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    timer = threading.Timer(seconds, _kill, (process,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill its whole session; a sandbox dies with the process that started it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

"""The loop that serves gradings: each in a process of its own, forked, confined, timed and thrown away.

    python -c '… main()'            one JSON document a line, on standard input and output

    in   {"job": str, "settings": {…}, "seconds": s, "memory_bytes": n}        once
    out  {"ready": bool, "reason": str}                                        once
    in   any payload of the job                                                each
    out  {"said": str, "ended": str}                                           each

``said`` is what the grading wrote about itself, word for word, and so as little to be trusted as it;
``ended`` says how its process ended. The loop imports libraries before it forks, so that one start-up
serves a whole batch; it never runs or even reads what a user or a model wrote.
"""

import json
import math
import numbers
import os
import select
import signal
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from core.graders.inside.confine import Limits, confine
from core.graders.inside.jobs import JOBS, Job
from core.graders.inside.system_calls import filter_program

MOST_SAID_BYTES = 2**14
MOST_REASON = 500
SECONDS_TO_EXIT = 0.2


def main() -> None:
    """Serve until standard input ends."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    _lead_nowhere()
    wanted = json.loads(lines.readline())
    limits = Limits(wanted["seconds"], wanted["memory_bytes"])
    job = JOBS[wanted["job"]](wanted["settings"])
    try:
        job.prepare()
        program = filter_program()
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the reason to tell
        _say(answers, {"ready": False, "reason": _reason(error)})
        return
    _say(answers, {"ready": True, "reason": ""})
    for line in lines:
        said, ended = _graded(job, line, limits, program)
        _say(answers, {"said": said.decode(errors="replace"), "ended": ended})


def _lead_nowhere() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)


def _say(answers: BinaryIO, document: dict[str, Any]) -> None:
    answers.write(json.dumps(document).encode() + b"\n")
    answers.flush()


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:MOST_REASON]


def _graded(job: Job, line: bytes, limits: Limits, program: bytes) -> tuple[bytes, str]:
    """What one grading said, and how it ended; by its time limit its process is gone."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _grade_and_exit(job, line, limits, program, writing)
    os.close(writing)
    end = time.monotonic() + limits.seconds
    said = b"".join(_heard(reading, end))
    os.close(reading)
    if len(said) > MOST_SAID_BYTES:
        _ended(child, 0.0)
        return b"", "wrote too much"
    left = end - time.monotonic()
    ended = _ended(child, min(SECONDS_TO_EXIT, left))
    return said, ended if left > 0 else "ran out of time"


def _heard(reading: int, end: float) -> Iterator[bytes]:
    """What comes through the pipe: to its end, to ``end``, or until it is too much."""
    total = 0
    while total <= MOST_SAID_BYTES:
        if not select.select([reading], [], [], max(0.0, end - time.monotonic()))[0]:
            return
        piece = os.read(reading, MOST_SAID_BYTES)
        if not piece:
            return
        total += len(piece)
        yield piece


def _ended(child: int, seconds: float) -> str:
    """Let ``child`` exit for so long, then kill it; how it ended."""
    handle = os.pidfd_open(child)
    select.select([handle], [], [], max(0.0, seconds))
    os.close(handle)
    os.kill(child, signal.SIGKILL)  # not yet waited for, so the number is still its own
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with {code}"


def _grade_and_exit(job: Job, line: bytes, limits: Limits, program: bytes, writing: int) -> None:
    """The child's whole life."""
    status = 1
    try:
        confine(limits, program, writing)
        os.write(writing, json.dumps(_outcome(job, line)).encode())
        status = 0
    finally:
        os._exit(status)


def _outcome(job: Job, line: bytes) -> dict[str, Any]:
    try:
        value = job.run(json.loads(line))
        if not isinstance(value, numbers.Real):
            return {"error": f"a number is wanted, not '{type(value).__name__}'"}
        reward = float(value)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: it is the grader's own end
        return {"error": job.explain(error)[:MOST_REASON]}
    if not math.isfinite(reward):
        return {"error": f"a finite number is wanted, not {reward}"}
    return {"reward": reward}

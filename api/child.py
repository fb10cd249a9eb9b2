"""Questions that only the trainer can answer, asked of a child process.

Transformers brings torch with it, which the API never imports: it would cost every API process memory and
seconds of start-up for something that is asked for now and then. So each question is a short-lived
`python -m core.train.…`: a time limit ends it whatever it is given, and few run at once.
"""

import json
import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from api.errors import ApiError, server_failure

log = logging.getLogger(__name__)

AT_ONCE = 2
WAIT_S = 10.0
LOGGED_BYTES = 4096
_places = threading.BoundedSemaphore(AT_ONCE)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked for (``noun``), and the command that tells the same without the API.

    The module `core.train.{noun}` answers.
    """

    noun: str
    by_hand: str

    def ask(
        self, order: dict[str, Any], limit_s: float, file: Iterable[bytes] = ()
    ) -> dict[str, Any]:
        """The answer to an order, which goes as one line of JSON before the bytes of ``file``.

        Raises ApiError: for what is wrong with the order, where the host has no trainer, after ``limit_s``
        seconds, and if too many are running.
        """
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise ApiError(
                400,
                f"this host has no trainer, which makes the {self.noun}",
                code=f"{self.noun}_not_available",
                hint=f"pip install 'castalia[train]' where the API runs, or use `{self.by_hand}`",
            )
        if not _places.acquire(timeout=WAIT_S):
            message = f"{AT_ONCE} such questions are being answered already"
            code = f"{self.noun}_busy"
            raise ApiError(429, message, code=code, headers={"retry-after": "5"})
        try:
            said = json.loads(_run(self, order, file, limit_s))
        finally:
            _places.release()
        if "error" in said:
            error = said["error"]
            raise ApiError(400, error["message"], code=error["code"], param=error["param"])
        found: dict[str, Any] = said[self.noun]
        return found


PREVIEW = Question("preview", "castalia data preview")
PLAN = Question("plan", "castalia plan")


def _run(question: Question, order: dict[str, Any], file: Iterable[bytes], limit_s: float) -> bytes:
    command = (sys.executable, "-P", "-m", f"core.train.{question.noun}")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err)  # noqa: S603 - no shell
        late = threading.Event()

        def end() -> None:
            late.set()
            child.kill()

        clock = threading.Timer(limit_s, end)
        clock.start()
        try:
            _feed(child, order, file)
            code = child.wait()
        finally:
            clock.cancel()
            child.kill()
            child.wait()
        if late.is_set():
            raise _too_late(question, limit_s)
        if code != 0:
            err.seek(max(0, err.seek(0, 2) - LOGGED_BYTES))
            said = err.read().decode(errors="replace")
            log.error("a %s ended with %s: %s", question.noun, code, said)
            raise server_failure()
        out.seek(0)
        return out.read()


def _feed(child: "subprocess.Popen[bytes]", order: dict[str, Any], file: Iterable[bytes]) -> None:
    """Send the file for as long as it is read: the child needs no more than up to its row."""
    assert child.stdin is not None
    with suppress(BrokenPipeError), child.stdin as pipe:
        pipe.write(json.dumps(order).encode() + b"\n")
        for piece in file:
            pipe.write(piece)


def _too_late(question: Question, limit_s: float) -> ApiError:
    return ApiError(
        400,
        f"the {question.noun} was not ready within {limit_s:g} s",
        code=f"{question.noun}_timed_out",
        hint=f"ask for less at once, or use `{question.by_hand}`",
    )

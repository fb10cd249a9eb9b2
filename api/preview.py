"""A row as a model sees it, asked of a child process.

A tokenizer of transformers brings torch with it, which the API never imports: it would cost every API
process memory and seconds of start-up for something that is asked for now and then. So each preview is a
short-lived `python -m core.train.preview`: a time limit ends it whatever the row does to it, and few run at
once.
"""

import json
import logging
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from api.errors import ApiError, server_failure

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "core.train.preview")
AT_ONCE = 2
WAIT_S = 10.0
LOGGED_BYTES = 4096
_places = threading.BoundedSemaphore(AT_ONCE)


def ask_preview(order: dict[str, Any], file: Iterable[bytes], limit_s: float) -> dict[str, Any]:
    """The preview for a `PreviewOrder` as JSON; ``file``: the training file's bytes.

    Raises ApiError: for what is wrong with row or model, where the host has no trainer, after ``limit_s``
    seconds, and if too many are running.
    """
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise ApiError(
            400,
            "this host has no trainer, which reads the model's tokenizer",
            code="preview_not_available",
            hint="pip install 'castalia[train]' where the API runs, or use `castalia data preview`",
        )
    if not _places.acquire(timeout=WAIT_S):
        message = f"{AT_ONCE} previews are being made already"
        raise ApiError(429, message, code="preview_busy", headers={"retry-after": "5"})
    try:
        said = json.loads(_run(order, file, limit_s))
    finally:
        _places.release()
    if "error" in said:
        error = said["error"]
        raise ApiError(400, error["message"], code=error["code"], param=error["param"])
    found: dict[str, Any] = said["preview"]
    return found


def _run(order: dict[str, Any], file: Iterable[bytes], limit_s: float) -> bytes:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=out, stderr=err)  # noqa: S603 - no shell
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
            raise _too_late(limit_s)
        if code != 0:
            err.seek(max(0, err.seek(0, 2) - LOGGED_BYTES))
            log.error("a preview ended with %s: %s", code, err.read().decode(errors="replace"))
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


def _too_late(limit_s: float) -> ApiError:
    return ApiError(
        400,
        f"the preview was not ready within {limit_s:g} s",
        code="preview_timed_out",
        hint="ask for an earlier or a shorter row, or use `castalia data preview`",
    )

"""The end of a trainer's log, for whoever wants to know why it failed."""

import logging
import os
from pathlib import Path

from core.spec.errors import RunFailure
from core.spec.run import LOG_FILE
from core.store.blobs import Blob, Blobs
from worker.in_time import patiently_in_time
from worker.keeper import LeaseKeeper
from worker.redact import redacted

log = logging.getLogger(__name__)

KEPT_BYTES = 64 * 2**10
MARGIN_BYTES = 4 * 2**10
"""Read beyond what is kept, so that a secret on the edge is seen whole and is taken out."""
LIMIT_S = 30.0


def log_tail(directory: Path, kept_bytes: int = KEPT_BYTES) -> str:
    """The last lines of a run's log without secrets; empty if there is none."""
    path = directory / LOG_FILE
    if not path.exists():
        return ""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - kept_bytes - MARGIN_BYTES))
        text = redacted(file.read().decode(errors="replace"))
    kept = text.encode()[-kept_bytes:].decode(errors="ignore")
    whole = size <= kept_bytes or "\n" not in kept
    return kept if whole else kept.partition("\n")[2]


def last_line(directory: Path) -> str:
    """The last line that the trainer printed."""
    lines = [line for line in log_tail(directory).splitlines() if line.strip()]
    return lines[-1] if lines else "none"


def store_log(blobs: Blobs, directory: Path, keeper: LeaseKeeper) -> Blob | None:
    """Keep the end of a run's log; None if there is nothing to keep or the store cannot be used.

    Raises LeaseLost.
    """
    tail = log_tail(directory).encode()
    if not tail:
        return None
    try:
        return patiently_in_time(
            lambda: blobs.write([tail]), keeper, "the log is not kept", limit_s=LIMIT_S
        )
    except RunFailure as failure:
        log.warning("%s; the log is not kept", failure)
        return None

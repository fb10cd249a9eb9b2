"""The end of a trainer's log, for whoever wants to know why it failed; of several devices, that of each rank.

The launcher's log mixes what all ranks print, so one that talks much may hide why another failed.
"""

import logging
import os
from pathlib import Path

from core.spec.errors import RunFailure
from core.spec.run import LOG_FILE, RANKS_FOLDER
from core.store.blobs import Blob, Blobs
from worker.in_time import patiently_in_time
from worker.keeper import LeaseKeeper
from worker.redact import redacted

log = logging.getLogger(__name__)

KEPT_BYTES = 64 * 2**10
MARGIN_BYTES = 4 * 2**10
"""Read beyond what is kept, so that a secret on the edge is seen whole and is taken out."""
LEAST_OF_RANK_BYTES = 4 * 2**10
LIMIT_S = 30.0
STREAMS = ("stdout.log", "stderr.log")


def log_tail(directory: Path, kept_bytes: int = KEPT_BYTES) -> str:
    """The last lines of a run's log without secrets; empty if there is none."""
    path = directory / LOG_FILE
    return _tail(path, kept_bytes) if path.exists() else ""


def rank_tails(directory: Path, kept_bytes: int = KEPT_BYTES) -> str:
    """The last lines of each rank's own log, under a heading; empty for a run on one device."""
    paths = sorted(
        (path for name in STREAMS for path in (directory / RANKS_FOLDER).rglob(name)),
        key=lambda path: (int(_rank(path)) if _rank(path).isdigit() else 0, path),
    )
    each = max(LEAST_OF_RANK_BYTES, kept_bytes // max(1, len(paths)))
    tails = ((path, _tail(path, each)) for path in paths)
    return "".join(
        f"\n== rank {_rank(path)}, {path.stem} ==\n{tail}" for path, tail in tails if tail
    )


def _rank(path: Path) -> str:
    """Its launcher gives each rank a folder of its number."""
    return path.parent.name


def _tail(path: Path, kept_bytes: int) -> str:
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
    tail = (log_tail(directory) + rank_tails(directory)).encode()
    if not tail:
        return None
    try:
        return patiently_in_time(
            lambda: blobs.write([tail]), keeper, "the log is not kept", limit_s=LIMIT_S
        )
    except RunFailure as failure:
        log.warning("%s; the log is not kept", failure)
        return None

"""Room on the run's file system: asked for before a checkpoint is written, and told where it ran out.

A quota, or another process that writes, can still take what was there: then the write itself fails, and is
told in the same words.
"""

import errno
import os
import shutil
from pathlib import Path

from core.spec.errors import ExitCode, JobError, RunFailure

FULL = (errno.ENOSPC, errno.EDQUOT)
BESIDE_TENSORS = 2**20
"""Bytes of a checkpoint's tokenizer, configuration and spec, until one is written: most have less."""


def refuse_without_room(directory: Path, needed: int) -> None:
    """Raise RunFailure unless ``needed`` bytes are free where the run ``directory`` lies."""
    if shutil.disk_usage(directory).free < needed:
        raise no_room(directory, needed)


def no_room(directory: Path, needed: int) -> RunFailure:
    """A checkpoint of ``needed`` bytes does not fit."""
    free = shutil.disk_usage(directory).free
    return RunFailure(
        JobError(
            code="insufficient_disk",
            message=f"a checkpoint takes {needed:,} bytes, and of the disk under {directory} {free:,} "
            "are free",
            param="trainer.checkpoint",
            fault="platform",
            retryable=True,
            hint="free disk space, or lower trainer.checkpoint.keep_last; the last checkpoint is whole",
        ),
        ExitCode.disk,
    )


def disk_is_full(error: BaseException | None) -> bool:
    """Told by its words: safetensors and torch wrap the system's error in one of their own."""
    while error is not None:
        if any(os.strerror(number) in str(error) for number in FULL):
            return True
        error = error.__cause__ or error.__context__
    return False

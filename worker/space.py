"""Room on the disk on which runs are laid out: looked at beforehand, and told when it ends after all."""

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.spec.errors import ExitCode, JobError, RunFailure

FULL = (errno.ENOSPC, errno.EDQUOT)


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def check_space(folder: Path, needed: int, free_bytes: Callable[[Path], int] = _free_bytes) -> None:
    """Raises RunFailure if ``needed`` bytes do not fit below ``folder``, which exists."""
    free = free_bytes(folder)
    if needed > free:
        raise _too_little(f"the run needs {needed} bytes for its files, and {free} are free")


@contextmanager
def failing_when_full() -> Iterator[None]:
    """In the block a disk that is full is a RunFailure."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _too_little(f"the disk is full: {error}") from error


def _too_little(message: str) -> RunFailure:
    return RunFailure(
        JobError(
            code="insufficient_disk",
            message=message,
            fault="platform",
            retryable=True,
            hint="free some space where CASTALIA_RUNS_DIR lies, or let it lie on a larger disk",
        ),
        ExitCode.disk,
    )

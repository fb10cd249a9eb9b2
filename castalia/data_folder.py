"""The folder that holds everything `castalia up` keeps: databases, logs, runs, models, secrets.

The one idea: whoever holds the lock owns the folder. The lock is the kernel's (flock), so it goes
with the process however that ends, and a stale pid in the file misleads nobody. The guard of the
supervisor inherits the lock, so the folder stays taken until the last child is gone.
"""

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from castalia.errors import DataFolderInUseError, DataFolderUnusableError

ROOMS = ("postgres", "valkey", "logs", "runs", "cache", "models", "secrets")


@dataclass(frozen=True, slots=True)
class DataFolder:
    """An opened and locked folder; `lock_fd` is what a guard has to keep open."""

    root: Path
    lock_fd: int

    postgres: Path
    valkey: Path
    logs: Path
    runs: Path
    cache: Path
    models: Path
    secrets: Path

    def close(self) -> None:
        """Give the folder back; call once."""
        os.close(self.lock_fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_data_folder(path: Path | str) -> DataFolder:
    """Make the folder where it is missing (mode 0700, rooms too), lock it, return it.

    Raises DataFolderUnusableError when it cannot be written, DataFolderInUseError when locked.
    """
    root = Path(path).expanduser().absolute()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_fd = os.open(root / "castalia.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as failure:
        raise DataFolderUnusableError(root, _reason(failure)) from failure
    try:
        _lock(root, lock_fd)
        for room in ROOMS:
            (root / room).mkdir(mode=0o700, exist_ok=True)
            if not os.access(root / room, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "Permission denied", str(root / room))
    except OSError as failure:
        os.close(lock_fd)
        raise DataFolderUnusableError(root, _reason(failure)) from failure
    except DataFolderInUseError:
        os.close(lock_fd)
        raise
    return DataFolder(root, lock_fd, **{room: root / room for room in ROOMS})


def _lock(root: Path, lock_fd: int) -> None:
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = int(os.pread(lock_fd, 32, 0) or b"0")
        raise DataFolderInUseError(root, pid, stopping=not _alive(pid)) from None
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, str(os.getpid()).encode(), 0)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _reason(failure: OSError) -> str:
    return f"{failure.strerror}: {failure.filename}" if failure.filename else str(failure.strerror)

"""What is left of a run on several devices when its launcher is gone: ended, so that the devices are free.

The ranks watch their launcher and end with it, but each in its own time, and the next trainer wants their
memory. They are known by the run directory on their command line; a pidfd makes sure that who is signalled
is still the process that was looked at.
"""

import logging
import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

LIMIT_S = 30.0
TRAINER = b"core.train"


class RanksLeft:
    """The processes that train in one run ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = os.fsencode(directory)

    def end(self, limit_s: float = LIMIT_S) -> None:
        """Kill them, and wait until each has ended; the log tells of one that does not within ``limit_s``."""
        for descriptor in [opened for pid in _processes() for opened in self._opened(pid)]:
            try:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                if not select.select([descriptor], [], [], limit_s)[0]:
                    log.warning("a process of %s does not end", os.fsdecode(self._directory))
            finally:
                os.close(descriptor)

    def _opened(self, pid: int) -> Iterator[int]:
        """A pidfd, if this process trains there."""
        if not self._is_ours(pid):
            return
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        if self._is_ours(pid):
            yield descriptor
        else:
            os.close(descriptor)

    def _is_ours(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return TRAINER in words and self._directory in words


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]

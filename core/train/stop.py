"""When to stop: a signal asks for it, and the death of the parent forces it."""

import os
import select
import signal
import threading

from core.spec.errors import ExitCode


class StopRequest:
    """SIGTERM and SIGINT ask the run to stop after its step; a second SIGINT ends it at once."""

    def __init__(self) -> None:
        self.asked = False
        self.listen()

    def listen(self) -> None:
        """Hear the signals again, where a library has taken them for itself."""
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_with_process(pid: int) -> None:
    """End this process when its parent, of this ``pid``, is gone, however that ended."""

    def wait() -> None:
        select.select([descriptor], [], [])
        os._exit(ExitCode.orphaned)

    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        os._exit(ExitCode.orphaned)
    if os.getppid() != pid:
        os._exit(ExitCode.orphaned)
    threading.Thread(target=wait, name="launcher-watch", daemon=True).start()


def end_with_parent(fd: int) -> None:
    """End this process when the writing end of the pipe ``fd`` is closed: its holder is dead.

    The run directory is left as it is; a checkpoint that was being written was not yet visible.
    """

    def wait() -> None:
        os.read(fd, 1)
        os._exit(ExitCode.orphaned)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()

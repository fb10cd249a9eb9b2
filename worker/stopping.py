"""A trainer that is to stop: asked once, and killed at its deadline, whatever its worker is busy with.

The worker may wait for a database or a store when a wish is heard, and longer than a trainer may take. So the
deadline is a timer's, not a look of whoever waits.
"""

import threading
from typing import Protocol


class Stoppable(Protocol):
    """What `Stopping` does to a trainer."""

    def ask_to_stop(self) -> None:
        """Finish the step, save, end."""
        ...

    def kill(self) -> None:
        """End now."""
        ...


class Stopping:
    """Of one trainer, which has ``grace_s`` seconds. Any thread may call."""

    def __init__(self, trainer: Stoppable, grace_s: float) -> None:
        self._trainer = trainer
        self._timer = threading.Timer(grace_s, self._kill)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._over = False
        self.begun = False

    def begin(self) -> None:
        """Ask; to be called again changes nothing."""
        with self._lock:
            if self.begun or self._over:
                return
            self.begun = True
        self._trainer.ask_to_stop()
        self._timer.start()

    def end(self) -> None:
        """The trainer has ended; nobody is asked or killed any more."""
        with self._lock:
            self._over = True
        self._timer.cancel()

    def _kill(self) -> None:
        self._trainer.kill()

"""Says that a run gets on where it has no event to tell yet: within a long step, an evaluation, a sampling.

Each beat is a part of the work that is done, a pass or a token of every answer, so a run that merely lives
has none. They are counted in a file that is written anew, at most once in a while, beside the run's events.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from core.spec.run import BEAT_FILE, Beat

EVERY_S = 1.0


class Heart:
    """Of a run in ``directory``. ``clock`` is monotonic seconds."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = directory / BEAT_FILE
        self._clock = clock
        self._count = 0
        self._written_at: float | None = None

    def beat(self) -> None:
        """A part is done."""
        self._count += 1
        now = self._clock()
        if self._written_at is not None and now - self._written_at < EVERY_S:
            return
        self._written_at = now
        aside = self._path.with_suffix(".new")
        # A disk that is full is told where something is lost by it.
        with suppress(OSError):
            aside.write_text(Beat(count=self._count).model_dump_json() + "\n")
            aside.replace(self._path)

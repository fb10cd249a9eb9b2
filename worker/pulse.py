"""Whether a run gets on: every line that it says, and every part of its work that it counts, is progress.

Life alone is none. A run that does neither for many times its longest silence between lines has stalled.
What is long differs from job to job, so its own steps are the measure; the floor is for what a run does now
and then and in one part, such as a checkpoint, and until the first step is done weights are loaded, which is
given a time of its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.spec.events import RunEvent, Started, StepDone


@dataclass(frozen=True, slots=True)
class StallLimits:
    """Seconds to the end of the first step, the least later, and how many times the longest silence."""

    start_s: float
    floor_s: float
    factor: float


class Pulse:
    """Hears one run. ``clock`` is monotonic seconds; ``step`` is the last one heard of."""

    def __init__(self, limits: StallLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._heard_at = clock()
        self._said_at: float | None = None
        self._beats = 0
        self._longest_s = 0.0
        self._stepping = False
        self.silent_s = 0.0
        self.step = 0

    def hear(self, events: Sequence[RunEvent], beats: int = 0) -> None:
        """What was new at this look, and the count of ``beats`` so far; nothing new is silence.

        Silences between events are told by their own stamps, since a worker may look late.
        """
        now = self._clock()
        for event in events:
            if self._said_at is not None:
                self._longest_s = max(self._longest_s, event.at - self._said_at)
            if isinstance(event, Started | StepDone):
                self._said_at, self.step = event.at, event.step
                self._stepping = self._stepping or isinstance(event, StepDone)
            elif self._said_at is not None:
                self._said_at = event.at
        if events or beats != self._beats:
            self._heard_at, self._beats = now, beats
        self.silent_s = now - self._heard_at

    @property
    def limit_s(self) -> float:
        """How long the run may be silent by now."""
        floor_s = self._limits.floor_s if self._stepping else self._limits.start_s
        return max(floor_s, self._limits.factor * self._longest_s)

    @property
    def stalled(self) -> bool:
        """Whether it was silent for longer when it was last listened to."""
        return self.silent_s > self.limit_s

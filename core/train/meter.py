"""Time and memory of a run, as its metrics tell them."""

import resource
import time
from collections.abc import Callable, Sequence

import torch

from core.train.pace import Pace

KIB = 1024


class Meter:
    """Times steps, and what lies between them. ``clock`` is monotonic seconds."""

    def __init__(
        self, pace: Pace, steps_left: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pace = pace
        self._clock = clock
        self._last = clock()
        self._between = 0.0
        self._done = 0
        self._left = steps_left

    def begin(self) -> None:
        """A step begins: what came since the last, as evaluation and checkpoints, was not part of one."""
        now = self._clock()
        self._between += now - self._last
        self._last = now

    def step(self, tokens: int, lengths: Sequence[int]) -> dict[str, float]:
        """A step on rows of ``lengths`` has ended, with ``tokens`` tokens through the model.

        Its speed and the most memory used so far.
        """
        now = self._clock()
        seconds, self._last = now - self._last, now
        self._done += 1
        self._left -= 1
        self._pace.see(lengths, seconds)
        return {
            "step_seconds": seconds,
            "tokens": tokens,
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "peak_memory_bytes": peak_memory_bytes(),
        }

    @property
    def seconds_left(self) -> float:
        """At the pace of the rows so far, with as much between two steps as before."""
        return self._pace.seconds_left + self._left * self._between / max(self._done, 1)


def peak_memory_bytes() -> int:
    """Most memory used so far: of the GPU if there is one, else of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB

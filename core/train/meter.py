"""Time and memory of a run, as its metrics tell them."""

import resource
import time
from collections.abc import Callable

import torch

KIB = 1024


class Meter:
    """Times steps. ``clock`` is monotonic seconds."""

    def __init__(self, steps_left: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._last = clock()
        self._done = 0
        self._left = steps_left

    def step(self, tokens: int) -> dict[str, float]:
        """A step over ``tokens`` tokens has ended: its speed and the most memory used so far."""
        now = self._clock()
        seconds, self._last = now - self._last, now
        self._done += 1
        self._left -= 1
        return {
            "step_seconds": seconds,
            "tokens": tokens,
            "tokens_per_second": tokens / max(seconds, 1e-9),
            "peak_memory_bytes": peak_memory_bytes(),
        }

    @property
    def seconds_left(self) -> float:
        """At the mean speed of the steps so far."""
        return self._left * (self._last - self._began) / max(self._done, 1)


def peak_memory_bytes() -> int:
    """Most memory used so far: of the GPU if there is one, else of this process."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB

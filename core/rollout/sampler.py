"""What the trainer asks of whoever samples answers: the seam for another engine.

A sampler draws whole answers from the policy as it is now, at one temperature and from the whole
distribution: no top-k, no top-p, no penalties, for training takes the ratio of its own probability
to the sampler's. It gives no log-probabilities: the trainer scores the answers with the engine
that it learns with, so that on policy the ratio is exactly 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.rollout.draws import Stream
from core.rollout.errors import SamplingError


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are drawn: `group_size` to each prompt, until a stop token or the limit.

    `max_completion_tokens` counts the stop token. Without `stop_ids` every answer reaches it.
    Raises SamplingError.
    """

    group_size: int
    max_completion_tokens: int
    stop_ids: frozenset[int]
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for field in ("group_size", "max_completion_tokens"):
            if getattr(self, field) < 1:
                raise SamplingError(field, getattr(self, field), "give a whole number above 0")
        if not 0 < self.temperature < math.inf:
            remedy = "give a finite number above 0"
            raise SamplingError("temperature", self.temperature, remedy)


@dataclass(frozen=True, slots=True)
class Answer:
    """One sampled answer: its tokens, the stop token among them if it came.

    `finished` is False where the limit cut it.
    """

    token_ids: list[int]
    finished: bool


class Sampler(Protocol):
    """Whoever can sample from the policy."""

    def sample(
        self, prompts: Sequence[Sequence[int]], *, rows: Sequence[int], stream: Stream,
        sampling: Sampling,
    ) -> list[list[Answer]]:  # fmt: skip
        """`group_size` answers to each prompt, in the order of the prompts.

        `rows[i]`, the number of prompt i's row in its file, keys the draws from `stream` together
        with the number of the answer: not its place in the call.
        """
        ...

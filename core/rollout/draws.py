"""Random numbers of a sampling, and the draw of a token.

The one idea: the number behind a token is a pure function of (seed, step, row, sample, position),
drawn from the counter-based generator. There is no generator whose order of use matters, so an
answer depends neither on the batch that it was sampled in nor on what was sampled before, and a
resumed run draws what the uninterrupted one drew.

A token is drawn by inverse transform: the first whose cumulated probability exceeds the number.

Legend: B rows, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.optim.philox import philox, stream_key
from core.rollout.errors import SamplingError

_LOW_BITS = (
    20  # of the second word: 52 in all, so that the largest number times a sum stays below it
)


@dataclass(frozen=True, slots=True)
class Stream:
    """The random numbers of one sampling: of a job's `seed`, at an optimizer step, for a purpose.

    Another purpose (validation, say) gives unrelated numbers at the same step.
    """

    seed: int
    step: int
    purpose: str = "rollout"

    def uniform(self, rows: Sequence[int], samples: Sequence[int], position: int) -> Tensor:
        """u_B, float64 in [0, 1) on the CPU: for token `position` of sample samples[b] of rows[b].

        All are whole numbers in [0, 2^32).
        """
        sample_B, row_B = (torch.tensor(x, dtype=torch.int64) for x in (samples, rows))
        position_1, step_1 = torch.tensor([position]), torch.tensor([self.step])
        key = stream_key(self.purpose, self.seed, "tokens")
        words_B4 = philox((position_1, sample_B, row_B, step_1), key)
        whole_B = (words_B4[:, 0] << _LOW_BITS) + (words_B4[:, 1] >> (32 - _LOW_BITS))
        return whole_B.double() / 2.0 ** (32 + _LOW_BITS)


def draw(logits_BV: Tensor, u_B: Tensor, temperature: float) -> Tensor:
    """token_B: drawn from softmax(logits_BV / temperature), all of it, by the numbers u_B.

    Computed in float64. Raises SamplingError where logits are not numbers.
    """
    probability_BV = (logits_BV.double() / temperature).softmax(-1)
    below_BV = probability_BV.cumsum_(-1)
    total_B1 = below_BV[:, -1:].clone()
    if not bool(total_B1.isfinite().all()):
        raise SamplingError("logits", "not finite", "the policy has diverged: lower the rate")
    sought_B1 = u_B.to(logits_BV.device)[:, None] * total_B1
    return torch.searchsorted(below_BV, sought_B1, right=True)[:, 0]

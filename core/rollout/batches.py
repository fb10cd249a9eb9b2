"""Which answers are sampled side by side.

The one idea: an answer's draws do not depend on its batch, so batches are cut for memory alone:
prompts of like length together, longest first, as many rows as a budget of tokens holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from core.rollout.sampler import Sampling


@dataclass(frozen=True, slots=True)
class Slot:
    """Answer number `sample` to prompt number `prompt`."""

    prompt: int
    sample: int


def batches(
    lengths: Sequence[int], sampling: Sampling, tokens_at_once: int, *, even: bool
) -> Iterator[list[Slot]]:
    """All answers to prompts of these lengths, in batches of at most `tokens_at_once` tokens.

    A row counts with its batch's longest prompt and a whole completion; a batch has a row at least.
    `even`: only prompts of one length go together.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    together = groupby(order, lambda i: lengths[i] if even else None)
    for _, prompts in together:
        left = [Slot(i, sample) for i in prompts for sample in range(sampling.group_size)]
        while left:
            tokens = lengths[left[0].prompt] + sampling.max_completion_tokens
            size = max(1, tokens_at_once // tokens)
            yield left[:size]
            left = left[size:]

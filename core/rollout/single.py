"""One answer, a token at a time, as somebody reads it.

The policy's sampler draws whole answers from the whole distribution, as training needs it; here a reader may
cut off the tail of the distribution (nucleus sampling) or take the likeliest token. Cache, draws and
random numbers are the same.

    nucleus(p): the fewest likeliest tokens whose probabilities sum to p or more; Holtzman et al., arXiv
    1904.09751, section 3.1

Legend: B rows (one), V vocabulary.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from core.rollout.decoding import Decoding
from core.rollout.draws import Stream, draw
from core.rollout.policy import resting


@dataclass(frozen=True, slots=True)
class Reading:
    """How one answer is drawn. ``temperature`` 0: the likeliest token each time."""

    temperature: float
    top_p: float
    max_tokens: int
    stop_ids: frozenset[int]


def tokens_of(
    model: nn.Module, prompt: Sequence[int], stream: Stream, reading: Reading
) -> Generator[int, None, None]:
    """The answer's tokens as they are drawn; the last is a stop token unless the limit came first."""
    with resting(model):
        decoding = Decoding(model, [prompt])
        for position in range(reading.max_tokens):
            token_B = _next(decoding.logits_BV, stream, position, reading)
            token = int(token_B[0])
            yield token
            if token in reading.stop_ids or position + 1 == reading.max_tokens:
                return
            decoding.step(token_B)


def nucleus(logits_BV: Tensor, temperature: float, top_p: float) -> Tensor:
    """``logits_BV`` with all but the nucleus at minus infinity."""
    probability_BV = (logits_BV.double() / temperature).softmax(-1)
    sorted_BV, order_BV = probability_BV.sort(-1, descending=True)
    before_BV = sorted_BV.cumsum(-1) - sorted_BV
    out_BV = torch.zeros_like(before_BV, dtype=torch.bool).scatter(-1, order_BV, before_BV >= top_p)
    return logits_BV.masked_fill(out_BV, float("-inf"))


def _next(logits_BV: Tensor, stream: Stream, position: int, reading: Reading) -> Tensor:
    if reading.temperature == 0:
        return logits_BV.argmax(-1)
    if reading.top_p < 1:
        logits_BV = nucleus(logits_BV, reading.temperature, reading.top_p)
    return draw(logits_BV, stream.uniform([0], [0], position), reading.temperature)

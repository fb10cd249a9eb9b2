"""Sampling from the model that learns, in its own process: the weights are those of this moment."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from core.rollout.batches import Slot, batches
from core.rollout.decoding import Decoding
from core.rollout.draws import Stream, draw
from core.rollout.errors import SamplingError
from core.rollout.sampler import Answer, Sampling
from core.rollout.trial import may_pad
from core.streambp import unstreamed
from core.streambp.atwork import at_work
from core.streambp.probe import evaluating


class PolicySampler:
    """Samples from `model`, a transformers causal language model, stock, attached or adapted.

    A batch's prompts and completions take at most `tokens_at_once` tokens of cache. The same call on
    the same weights gives the same answers. In float64 they do not depend on batches either; in a
    narrower dtype logits do, by rounding, and a token is another where its random number falls on a
    boundary between two within that: about one in a million in float32, in a hundred in bfloat16.
    `beat` is called for each token that a batch goes on by. Raises UndecodableError.
    """

    def __init__(
        self, model: nn.Module, *, tokens_at_once: int, beat: Callable[[], object] = bool
    ) -> None:
        self._model, self._tokens_at_once, self._beat = model, tokens_at_once, beat
        with resting(model):
            self._even = not may_pad(model)

    def sample(
        self, prompts: Sequence[Sequence[int]], *, rows: Sequence[int], stream: Stream,
        sampling: Sampling,
    ) -> list[list[Answer]]:  # fmt: skip
        """See `Sampler`. The model's mode, gradients and torch's generators stay as they are."""
        if len(rows) != len(prompts):
            raise SamplingError("rows", list(rows), f"give {len(prompts)}, one to a prompt")
        for number, prompt in enumerate(prompts):
            if not prompt:
                raise SamplingError(f"prompts[{number}]", [], "a prompt has a token or more")
        answers: dict[Slot, Answer] = {}
        lengths = [len(prompt) for prompt in prompts]
        with resting(self._model):
            for slots in batches(lengths, sampling, self._tokens_at_once, even=self._even):
                decoding = self._opened(prompts, slots)
                keys = [(rows[slot.prompt], slot.sample) for slot in slots]
                decoded = _decoded(decoding, keys, stream, sampling, self._beat)
                answers.update(zip(slots, decoded, strict=True))
        return [
            [answers[Slot(i, sample)] for sample in range(sampling.group_size)]
            for i in range(len(prompts))
        ]

    def _opened(self, prompts: Sequence[Sequence[int]], slots: list[Slot]) -> Decoding:
        """Read each prompt of a batch once, and share what was read between its answers."""
        unique = list(dict.fromkeys(slot.prompt for slot in slots))
        decoding = Decoding(self._model, [prompts[i] for i in unique])
        decoding.take([unique.index(slot.prompt) for slot in slots])
        return decoding


def _decoded(
    decoding: Decoding, keys: list[tuple[int, int]], stream: Stream, sampling: Sampling,
    beat: Callable[[], object],
) -> list[Answer]:  # fmt: skip
    """Decode every row to its end; `keys` are its (row, sample)."""
    tokens: list[list[int]] = [[] for _ in keys]
    going = list(range(len(keys)))
    for position in range(sampling.max_completion_tokens):
        rows, samples = zip(*(keys[i] for i in going), strict=True)
        u_B = stream.uniform(rows, samples, position)
        token_B = draw(decoding.logits_BV, u_B, sampling.temperature)
        drawn = token_B.tolist()
        for i, token in zip(going, drawn, strict=True):
            tokens[i].append(token)
        left = [place for place, token in enumerate(drawn) if token not in sampling.stop_ids]
        if not left or position + 1 == sampling.max_completion_tokens:
            break
        if len(left) < len(going):
            decoding.take(left)
            token_B, going = token_B[left], [going[place] for place in left]
        decoding.step(token_B)
        beat()
    return [Answer(ids, ids[-1] in sampling.stop_ids) for ids in tokens]


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """While the block runs: no dropout, gradients, autocast or streaming; int8 weights at work."""
    device = next(model.parameters()).device
    with (
        torch.no_grad(), evaluating(model, device), unstreamed(model), at_work(model.parameters()),
    ):  # fmt: skip
        yield

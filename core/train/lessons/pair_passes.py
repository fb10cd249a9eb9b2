"""A step's pairs, split into passes that fit, as tensors.

The two answers of a pair share what their prompt computes. The pairs of a pass stand one after the other in
one row, so that nothing is padded. A model that mixes the documents of a row is given a row for each answer
instead, prompt and all. What the passes add up to does not depend on how they were cut.

Legend: B batch, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.data.pair import EncodedPair
from core.streambp import Layout, Shared
from core.train.passes import PAD_ID, grouped

NO_ANSWER = -1

_Row = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class PairPass:
    """Pairs that go through the model at once; ``pairs``: which of those that were given.

    ``answer_BT``: to which answer a scored token belongs, 2 k for the chosen of ``pairs[k]`` and 2 k + 1
    for the rejected; NO_ANSWER where nothing is scored.
    """

    pairs: list[int]
    input_ids_BT: Tensor
    answer_BT: Tensor
    layout: Layout

    @property
    def tokens(self) -> int:
        """How many go through the model, without padding."""
        return sum(self.layout.real)


def pair_passes(
    pairs: Sequence[EncodedPair], tokens_per_pass: int, device: torch.device, *, share: bool
) -> Iterator[PairPass]:
    """All ``pairs``, longest first, at most ``tokens_per_pass`` padded tokens at once (or one pair).

    ``share``: compute a prompt once for its two answers.
    """
    lengths = [len(p) if share else 2 * max(map(len, p.branches)) for p in pairs]
    for group in grouped(lengths, tokens_per_pass):
        chosen = [pairs[index] for index in group]
        rows, documents = _shared(chosen) if share else _apart(chosen)
        width = max(len(ids) for ids, _ in rows)
        yield PairPass(
            group,
            torch.tensor([_padded(ids, width, PAD_ID) for ids, _ in rows], device=device),
            torch.tensor([_padded(marks, width, NO_ANSWER) for _, marks in rows], device=device),
            Layout.packed(documents, width),
        )


def _shared(pairs: Sequence[EncodedPair]) -> tuple[list[_Row], list[list[int | Shared]]]:
    ids: list[int] = []
    marks: list[int] = []
    documents: list[int | Shared] = []
    for number, pair in enumerate(pairs):
        ids += pair.prompt_ids + pair.chosen.input_ids + pair.rejected.input_ids
        marks += [NO_ANSWER] * len(pair.prompt_ids)
        marks += _marks(pair.chosen.scored, 2 * number) + _marks(
            pair.rejected.scored, 2 * number + 1
        )
        documents.append(Shared(len(pair.prompt_ids), (len(pair.chosen), len(pair.rejected))))
    return [(ids, marks)], [documents]


def _apart(pairs: Sequence[EncodedPair]) -> tuple[list[_Row], list[list[int | Shared]]]:
    branches = [branch for pair in pairs for branch in pair.branches]
    rows = [(b.input_ids, _marks(b.trained, number)) for number, b in enumerate(branches)]
    return rows, [[len(branch)] for branch in branches]


def _marks(scored: Sequence[bool], answer: int) -> list[int]:
    return [answer if token else NO_ANSWER for token in scored]


def _padded(values: list[int], width: int, pad: int) -> list[int]:
    return values + [pad] * (width - len(values))

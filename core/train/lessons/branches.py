"""A step's prompts and their answers, split into passes that fit, as tensors.

    [prompt, answer, answer, …, prompt, answer, …]        one row, of which nothing is padding
    [prompt, answer, padding]                             where layers of the model mix documents

In the first way the answers share what their prompt computes. What the passes add up to does not depend on
how they were cut.

Legend: B batch, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.data.branches import Branches, whole_rows
from core.ranks import ALONE, Crew
from core.streambp import Layout, Shared
from core.train.passes import PAD_ID, blank_ids, dealt

NO_ANSWER = -1

_Row = tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class BranchPass:
    """Prompts that go through the model at once with all their answers.

    ``members``: which of those given. ``answer_BT``: to which answer a scored token belongs, counted
    over the members' answers in order; NO_ANSWER where nothing is scored.
    """

    members: list[int]
    input_ids_BT: Tensor
    answer_BT: Tensor
    layout: Layout

    @property
    def tokens(self) -> int:
        """How many go through the model, without padding."""
        return sum(self.layout.real)

    @property
    def scored(self) -> tuple[Tensor, Tensor, Layout]:
        """What `answer_logps` asks for after the model."""
        return self.input_ids_BT, self.answer_BT != NO_ANSWER, self.layout


def branch_passes(
    branches: Sequence[Branches],
    tokens_per_pass: int,
    device: torch.device,
    *,
    share: bool,
    crew: Crew = ALONE,
) -> Iterator[BranchPass]:
    """This rank's ``branches``, longest first, at most ``tokens_per_pass`` padded tokens at once (or one).

    ``share``: compute a prompt once for its answers. Every rank makes as many passes; those that it has
    nothing for have no members.
    """
    lengths = [len(one) if share else _padded_tokens(one) for one in branches]
    for group in dealt(lengths, tokens_per_pass, crew):
        if not group:
            ids_BT, layout = blank_ids(device)
            yield BranchPass([], ids_BT, torch.full_like(ids_BT, NO_ANSWER), layout)
            continue
        chosen = [branches[index] for index in group]
        rows, documents = _shared(chosen) if share else _apart(chosen)
        width = max(len(ids) for ids, _ in rows)
        yield BranchPass(
            group,
            torch.tensor([_padded(ids, width, PAD_ID) for ids, _ in rows], device=device),
            torch.tensor([_padded(marks, width, NO_ANSWER) for _, marks in rows], device=device),
            Layout.packed(documents, width),
        )


def _padded_tokens(one: Branches) -> int:
    return len(one.answers) * (len(one.prompt_ids) + max(map(len, one.answers)))


def _shared(chosen: Sequence[Branches]) -> tuple[list[_Row], list[list[int | Shared]]]:
    ids: list[int] = []
    marks: list[int] = []
    documents: list[int | Shared] = []
    answers = 0
    for one in chosen:
        ids += one.prompt_ids
        marks += [NO_ANSWER] * len(one.prompt_ids)
        for number, answer in enumerate(one.answers, answers):
            ids += answer.input_ids
            marks += _marks(answer.scored, number)
        answers += len(one.answers)
        documents.append(Shared(len(one.prompt_ids), tuple(map(len, one.answers))))
    return [(ids, marks)], [documents]


def _apart(chosen: Sequence[Branches]) -> tuple[list[_Row], list[list[int | Shared]]]:
    rows = [row for one in chosen for row in whole_rows(one)]
    marked = [(row.input_ids, _marks(row.trained, number)) for number, row in enumerate(rows)]
    return marked, [[len(row)] for row in rows]


def _marks(scored: Sequence[bool], answer: int) -> list[int]:
    return [answer if token else NO_ANSWER for token in scored]


def _padded(values: list[int], width: int, pad: int) -> list[int]:
    return values + [pad] * (width - len(values))

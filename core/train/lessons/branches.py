"""Answers to prompts as passes: a prompt stands once, and each of its answers follows it by itself.

    [prompt, answer, answer, …, prompt, answer, …]        one row, filled up to the tokens of a pass
    [prompt, answer, padding]                             where layers of the model mix documents

Either way an answer's tokens are scored, each at its own place, given its prompt and what comes before it in
the answer.

Legend: B batch, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.streambp import Layout, Shared
from core.train.passes import PAD_ID

NO_ANSWER = -1


@dataclass(frozen=True, slots=True)
class Branches:
    """A prompt and the answers to it, as token ids, none empty."""

    prompt: Sequence[int]
    answers: Sequence[Sequence[int]]

    def __len__(self) -> int:
        """Count the tokens of all, the prompt's once."""
        return len(self.prompt) + sum(map(len, self.answers))


@dataclass(frozen=True, slots=True)
class BranchPass:
    """Answers that go through the model at once.

    ``answer_BT``: which answer of the pass a token belongs to, NO_ANSWER: to none. ``answers``: their
    numbers in the step, counted over all its branches in order.
    """

    input_ids_BT: Tensor
    answer_BT: Tensor
    layout: Layout
    answers: list[int]

    @property
    def scored(self) -> tuple[Tensor, Tensor, Layout]:
        """What `answer_logps` asks for after the model."""
        return self.input_ids_BT, self.answer_BT != NO_ANSWER, self.layout


def branch_passes(
    branches: Sequence[Branches], tokens_per_pass: int, device: torch.device, *, shared: bool
) -> Iterator[BranchPass]:
    """All ``branches``, at most ``tokens_per_pass`` tokens at once, or one prompt with its answers.

    ``shared``: whether the model's layers can keep answers apart in one row.
    """
    starts, first = [], 0
    for one in branches:
        starts.append(first)
        first += len(one.answers)
    cut = _shared_rows if shared else _rows_apart
    yield from cut(list(zip(starts, branches, strict=True)), tokens_per_pass, device)


def _shared_rows(
    numbered: list[tuple[int, Branches]], tokens_per_pass: int, device: torch.device
) -> Iterator[BranchPass]:
    group: list[tuple[int, Branches]] = []
    for one in numbered:
        if group and sum(len(b) for _, b in [*group, one]) > tokens_per_pass:
            yield _shared_row(group, device)
            group = []
        group.append(one)
    if group:
        yield _shared_row(group, device)


def _shared_row(group: list[tuple[int, Branches]], device: torch.device) -> BranchPass:
    ids: list[int] = []
    of: list[int] = []
    answers: list[int] = []
    for first, one in group:
        ids += one.prompt
        of += [NO_ANSWER] * len(one.prompt)
        for number, answer in enumerate(one.answers):
            ids += answer
            of += [len(answers)] * len(answer)
            answers.append(first + number)
    documents = [Shared(len(b.prompt), tuple(map(len, b.answers))) for _, b in group]
    layout = Layout.packed([documents], len(ids))
    return BranchPass(
        torch.tensor([ids], device=device), torch.tensor([of], device=device), layout, answers
    )


def _rows_apart(
    numbered: list[tuple[int, Branches]], tokens_per_pass: int, device: torch.device
) -> Iterator[BranchPass]:
    rows = [
        (first + number, one.prompt, answer)
        for first, one in numbered
        for number, answer in enumerate(one.answers)
    ]
    rows.sort(key=lambda row: -len(row[1]) - len(row[2]))
    while rows:
        longest = len(rows[0][1]) + len(rows[0][2])
        size = max(1, tokens_per_pass // longest)
        group, rows = rows[:size], rows[size:]
        ids_BT = torch.full((len(group), longest), PAD_ID)
        of_BT = torch.full((len(group), longest), NO_ANSWER)
        for place, (_, prompt, answer) in enumerate(group):
            end = len(prompt) + len(answer)
            ids_BT[place, :end] = torch.tensor([*prompt, *answer])
            of_BT[place, len(prompt) : end] = place
        layout = Layout.causal([len(p) + len(a) for _, p, a in group], longest)
        yield BranchPass(
            ids_BT.to(device), of_BT.to(device), layout, [number for number, _, _ in group]
        )

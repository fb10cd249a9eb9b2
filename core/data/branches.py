"""A prompt, and answers that each follow it by itself: how preferences and sampled answers are laid out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from core.data.encoded import Encoded


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens that follow a prompt; ``scored[t]``: the model says token t, so it is scored."""

    input_ids: list[int]
    scored: list[bool]

    def __len__(self) -> int:
        return len(self.input_ids)

    def first(self, tokens: int) -> "Answer":
        """Its first tokens, at most so many."""
        return Answer(self.input_ids[:tokens], self.scored[:tokens])


class Branches(Protocol):
    """A prompt and the answers to it, none of them empty."""

    def __len__(self) -> int:
        """Count the tokens of all, the prompt's once."""
        ...

    @property
    def prompt_ids(self) -> list[int]:
        """What every answer follows."""
        ...

    @property
    def answers(self) -> Sequence[Answer]:
        """What follows it."""
        ...


@dataclass(frozen=True, slots=True)
class Group:
    """Sampled answers to one prompt."""

    prompt_ids: list[int]
    answers: tuple[Answer, ...]

    @classmethod
    def of(cls, prompt_ids: list[int], answers: Sequence[list[int]]) -> "Group":
        """A group of answers of which every token is scored."""
        return cls(prompt_ids, tuple(Answer(ids, [True] * len(ids)) for ids in answers))

    def __len__(self) -> int:
        return len(self.prompt_ids) + sum(map(len, self.answers))


def whole_rows(branches: Branches, line: int = 0) -> list[Encoded]:
    """Each answer after a prompt of its own: rows that stand alone."""
    prompt = branches.prompt_ids
    return [
        Encoded(prompt + answer.input_ids, [False] * len(prompt) + answer.scored, line)
        for answer in branches.answers
    ]

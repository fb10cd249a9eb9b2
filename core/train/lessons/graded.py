"""Sampled answers with what they are worth: what one or more optimizer steps learn from."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from core.data.branches import Group
from core.data.prompts import EncodedPrompt
from core.graders.grade import Pair
from core.graders.sample import Sample
from core.graders.verdict import Grade
from core.objectives import advantages
from core.ranks import ALONE, Crew
from core.rollout import Answer
from core.spec.errors import data_failure
from core.spec.objective import GrpoSpec


@dataclass(slots=True)
class GradedAnswers:
    """Groups; ``advantage_A``: of all their answers in order.

    ``old``, ``reference``: log-probabilities of an answer's tokens, by its number, of answers scored here.

    ``has_signal``: whether anything is to be learnt: answers that differ in reward, or a divergence.
    """

    groups: list[Group]
    advantage_A: Tensor
    has_signal: bool
    metrics: dict[str, float]
    old: dict[int, Tensor] | None = None
    reference: dict[int, Tensor] | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(answer) for group in self.groups for answer in group.answers)

    def alone(self) -> list[Group]:
        """Each answer in a group of its own."""
        return [
            Group(group.prompt_ids, (answer,)) for group in self.groups for answer in group.answers
        ]

    def state(self, crew: Crew = ALONE) -> dict[str, Any]:
        """Plain numbers and tensors, from which the same batch can be made, of all ranks together."""
        return {
            "groups": [
                [group.prompt_ids, [answer.input_ids for answer in group.answers]]
                for group in self.groups
            ],
            "advantage": self.advantage_A,
            "has_signal": self.has_signal,
            "metrics": self.metrics,
            "old": _together(crew.each(self.old)),
            "reference": _together(crew.each(self.reference)),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Make it again."""
        return cls(
            [Group.of(prompt, answers) for prompt, answers in state["groups"]],
            state["advantage"],
            state["has_signal"],
            state["metrics"],
            state["old"],
            state["reference"],
        )


def by_answer(x_BT: Tensor, answer_BT: Tensor, numbers: Sequence[int]) -> dict[int, Tensor]:
    """What a pass's table says of each answer's tokens, on the host, by the answers' ``numbers``."""
    scored_BT = (answer_BT >= 0).to(x_BT.device)
    sizes = torch.bincount(answer_BT[answer_BT >= 0], minlength=len(numbers)).tolist()
    return dict(zip(numbers, x_BT[scored_BT].cpu().split(sizes), strict=True))


def table(
    values: Mapping[int, Tensor], answer_BT: Tensor, numbers: Sequence[int], like_BT: Tensor
) -> Tensor:
    """The table that `by_answer` took apart, 0 where nothing is scored."""
    x_BT = torch.zeros_like(like_BT)
    if numbers:
        x_N = torch.cat([values[number] for number in numbers])
        x_BT[(answer_BT >= 0).to(x_BT.device)] = x_N.to(x_BT)
    return x_BT


def _together(told: Sequence[dict[int, Tensor] | None]) -> dict[int, Tensor] | None:
    if told[0] is None:
        return None
    return {number: value for one in told if one for number, value in one.items()}


def graded(
    objective: GrpoSpec,
    prompts: Sequence[EncodedPrompt],
    answers: Sequence[Sequence[Answer]],
    tokenizer: PreTrainedTokenizerBase,
    stops: frozenset[int],
    grade: Callable[[Sequence[Pair]], Iterable[Grade]],
) -> GradedAnswers:
    """``grade`` all answers at once. Raises RunFailure where the grader fails on every one of them."""
    asked = [
        (Sample(_text(answer, tokenizer, stops), json_output=objective.json_output), prompt.item)
        for prompt, group in zip(prompts, answers, strict=True)
        for answer in group
    ]
    grades = list(grade(asked))
    _refuse_always_failing(grades, prompts)
    reward_PG = torch.tensor([grade.reward for grade in grades], dtype=torch.float64)
    reward_PG = reward_PG.view(len(prompts), -1)
    metrics = _metrics(grades, reward_PG, answers)
    if reward_PG.shape[1] == 1:  # an evaluation: nothing to compare with
        advantage_A = torch.zeros_like(reward_PG.flatten())
    else:
        found = advantages(reward_PG, objective.advantages)
        advantage_A = found.advantage_PG.flatten()
        metrics["groups_without_signal"] = found.without_signal
    return GradedAnswers(
        [
            Group.of(prompt.input_ids, [answer.token_ids for answer in group])
            for prompt, group in zip(prompts, answers, strict=True)
        ],
        advantage_A,
        bool(advantage_A.any()) or bool(objective.kl_weight),
        metrics,
    )


def _text(answer: Answer, tokenizer: PreTrainedTokenizerBase, stops: frozenset[int]) -> str:
    """The answer's words, without the token that ended it."""
    ids = answer.token_ids[:-1] if answer.token_ids[-1] in stops else answer.token_ids
    return str(tokenizer.decode(ids, skip_special_tokens=True))


def _metrics(
    grades: Sequence[Grade], reward_PG: Tensor, answers: Sequence[Sequence[Answer]]
) -> dict[str, float]:
    lengths = [len(answer.token_ids) for group in answers for answer in group]
    cut = [not answer.finished for group in answers for answer in group]
    errors = Counter(name for grade in grades for name in grade.errors.flags())
    return {
        "reward_mean": float(reward_PG.mean()),
        "reward_std": float(reward_PG.std(correction=0)),
        "completion_tokens": sum(lengths) / len(lengths),
        "completion_tokens_max": max(lengths),
        "truncated_share": sum(cut) / len(cut),
        "grader_errors": sum(bool(grade.errors) for grade in grades),
        **{f"grader_{name}": count for name, count in sorted(errors.items())},
    }


def _refuse_always_failing(grades: Sequence[Grade], prompts: Sequence[EncodedPrompt]) -> None:
    if not all(grade.errors for grade in grades):
        return
    lines = ", ".join(str(line) for prompt in prompts for line in prompt.lines)
    raise data_failure(
        "grader_always_failing",
        f"the grader failed on all {len(grades)} answers of a step (lines {lines}): "
        f"{_reason(grades[0])}",
        param="trainer.objective.grader",
        hint="try the grader on one answer first; where it fails it gives 0, which teaches nothing",
    )


def _reason(grade: Grade) -> str:
    errors = grade.errors
    details = errors.python_grader_runtime_error_details or errors.other_error_details
    flags = ", ".join(errors.flags())
    return f"{flags}: {details}" if details else flags

"""What goes through a job's model at once, from the lengths of its rows: what the memory plan is asked about.

    supervised        rows side by side, padded
    dpo, grpo         prompts with all their answers, one after the other in one row;
                      where layers mix documents a row an answer, its prompt in each
    grpo, besides     a batch of answers while they are sampled

No pass of a step is larger in both rows and tokens than one that is given here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from core.data.branches import whole_rows
from core.data.pair import EncodedPair
from core.data.prompts import EncodedPrompt
from core.spec.job import JobSpec
from core.spec.objective import DpoSpec, GrpoSpec
from core.streambp.plan import Drawn, Shape
from core.train.passes import largest_passes

_SIDES = 2  # of a pair


@dataclass(frozen=True, slots=True)
class Length:
    """A row of the data in tokens: ``shared``, its prompt once and all answers; ``branch``, the longest one.

    Of a row that is no prompt with answers both are its length.
    """

    shared: int
    branch: int


@dataclass(frozen=True, slots=True)
class Work:
    """Passes that teach, those without gradients, and batches of answers."""

    learnt: list[Shape]
    scored: list[Shape]
    drawn: list[Drawn]


def length_of(row: Any, spec: JobSpec) -> Length:
    """Of an encoded row, as the spec's lesson reads it; of a prompt with answers of full length."""
    if isinstance(row, EncodedPair):
        return Length(len(row), max(map(len, whole_rows(row))))
    objective = spec.trainer.objective
    if isinstance(row, EncodedPrompt) and isinstance(objective, GrpoSpec):
        prompt = len(row.input_ids)
        return _group(prompt, objective)
    return Length(len(row), len(row))


def longest_length(spec: JobSpec) -> Length:
    """Of the longest row that the resolved ``spec`` allows."""
    context, objective = spec.trainer.context_length, spec.trainer.objective
    assert context is not None, "a resolved spec has one"
    if isinstance(objective, DpoSpec):
        return Length(_SIDES * context, context)
    if isinstance(objective, GrpoSpec):
        return _group(max(context - objective.max_completion_tokens, 1), objective)
    return Length(context, context)


def work_of(spec: JobSpec, lengths: Sequence[Length], *, mixing: bool) -> Work:
    """What the resolved ``spec`` does on rows of these lengths; ``mixing``: whether layers mix documents.

    A single length stands for any number of rows that have it.
    """
    batch, objective = spec.hyperparameters.batch_size, spec.trainer.objective
    learnt = _passes(spec, lengths, batch, mixing=mixing)
    drawn = _drawn(spec, objective, lengths) if isinstance(objective, GrpoSpec) else []
    referred = isinstance(objective, DpoSpec) and objective.reference == "base"
    if isinstance(objective, GrpoSpec):  # what it measures it samples
        scored = learnt if objective.kl_weight else []
    elif referred or spec.validation_file is not None:
        # All rows of a file, not a step's, and as many at once as a pass holds.
        scored = _passes(spec, lengths, _tokens_per_pass(spec), mixing=mixing)
    else:
        scored = []
    return Work(learnt, scored, drawn)


def _passes(spec: JobSpec, lengths: Sequence[Length], at_once: int, *, mixing: bool) -> list[Shape]:
    tokens, objective = _tokens_per_pass(spec), spec.trainer.objective
    branches = [length.branch for length in lengths]
    match objective:
        case DpoSpec() if mixing:
            pairs = largest_passes([_SIDES * branch for branch in branches], at_once, tokens)
            return [(_SIDES * count, both // _SIDES) for count, both in pairs]
        case GrpoSpec() if mixing:
            return _of_any_length(max(branches), at_once * objective.group_size, tokens)
        case DpoSpec() | GrpoSpec():
            return [(1, _side_by_side([length.shared for length in lengths], at_once, tokens))]
        case _:
            return largest_passes(branches, at_once, tokens)


def _side_by_side(shared: Iterable[int], at_once: int, tokens_per_pass: int) -> int:
    """Tokens of the longest row that prompts with their answers make, one after the other."""
    most = sorted(shared, reverse=True)
    return max(
        most[0], min(tokens_per_pass, sum(most[:at_once]) if most[1:] else at_once * most[0])
    )


def _of_any_length(longest: int, at_once: int, tokens_per_pass: int) -> list[Shape]:
    """Passes of rows that may be shorter than the longest, as answers may end early."""
    least = max(1, tokens_per_pass // longest)
    counts = range(min(least, at_once), min(at_once, tokens_per_pass) + 1)
    return [(count, min(longest, max(tokens_per_pass // count, 1))) for count in counts] or [
        (1, longest)
    ]


def _drawn(spec: JobSpec, objective: GrpoSpec, lengths: Sequence[Length]) -> list[Drawn]:
    """Batches of answers to prompts of these lengths: of a step's, and of a validation file's."""
    step, tokens = spec.hyperparameters.batch_size, _tokens_per_pass(spec)
    asked = [(step * objective.group_size, objective.group_size, step)]
    if spec.validation_file is not None:
        asked.append((tokens, objective.eval_samples, tokens))
    branches = [length.branch for length in lengths]
    completion = objective.max_completion_tokens
    return [
        Drawn(rows, min(_touched(rows, each), prompts), max(branch - completion, 1), completion)
        for most, each, prompts in asked
        for rows, branch in largest_passes(branches, most, tokens)
    ]


def _touched(rows: int, each: int) -> int:
    """Into how many prompts' answers so many rows can reach, one after the other, `each` to a prompt."""
    return 1 if rows == 1 else (rows - 2) // each + 2


def _group(prompt: int, objective: GrpoSpec) -> Length:
    completion = objective.max_completion_tokens
    return Length(prompt + objective.group_size * completion, prompt + completion)


def _tokens_per_pass(spec: JobSpec) -> int:
    tokens = spec.trainer.tokens_per_pass
    assert tokens is not None, "a resolved spec has one"
    return tokens

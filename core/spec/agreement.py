"""Words of a spec that are each right and do not go together."""

from core.spec.problems import Problem
from core.spec.trainer import TrainerSpec
from core.spec.tree import SpecError

OVERLENGTH = "trainer.on_overlength"
ROWS_APART = ("dpo", "grpo")
"""Objectives whose rows are pairs or groups, which share their prompt's computation already."""


def check_agreement(trainer: TrainerSpec, *, validated: bool) -> None:
    """Raise SpecError with every contradiction; ``validated``: whether there is a validation file."""
    kind = trainer.objective.kind
    problems = []
    if kind in ROWS_APART and trainer.packing:
        problems.append(
            _problem("trainer.packing", f"rows of {kind} cannot be packed; leave packing out")
        )
    if kind in ROWS_APART and trainer.on_overlength == "split":
        problems.append(_problem(OVERLENGTH, f"rows of {kind} cannot be split; choose another"))
    if kind == "grpo" and trainer.on_overlength == "truncate_right":
        message = "a prompt cut on the right would lose the opening of its answer"
        problems.append(_problem(OVERLENGTH, f"{message}; choose error, drop or truncate_left"))
    if not validated:
        remedy = "is of the validation file, and there is none: give validation_file"
        if trainer.early_stopping is not None:
            problems.append(_problem("trainer.early_stopping", f"its metric {remedy}"))
        if trainer.checkpoint.keep_best is not None:
            problems.append(_problem("trainer.checkpoint.keep_best", f"this metric {remedy}"))
    if problems:
        raise SpecError(problems)


def _problem(path: str, message: str) -> Problem:
    return Problem(path, message, "invalid_value")

"""How a job's weights are stepped and held, and what cannot be: told from the spec alone."""

from typing import Literal

from core.spec.problems import Problem
from core.spec.trainer import TrainerSpec
from core.spec.tree import SpecError

LINEAR = ("pretrain", "sft")
"""The objectives whose gradient is known before the forward pass."""


def chosen_step(
    trainer: TrainerSpec, tokens_per_step: int, tokens_per_pass: int
) -> Literal["fused", "two_phase"]:
    """``trainer.step`` with ``auto`` decided. Raises SpecError for a fused step that cannot be.

    ``tokens_per_step``: the most that the rows of a step can have, padded.
    """
    if trainer.step == "two_phase":
        return "two_phase"
    problem = _obstacle(trainer, tokens_per_step, tokens_per_pass)
    if problem is None:
        return "fused"
    if trainer.step == "fused":
        raise SpecError([Problem("trainer.step", problem, "invalid_value")])
    return "two_phase"


def check_precision(trainer: TrainerSpec) -> None:
    """Raise SpecError where the optimizer would lose updates of weights held so.

    Beside an adapter they are frozen, and its own matrices are float32.
    """
    kind, precision = trainer.optimizer.kind, trainer.precision
    if trainer.adapter.kind == "lora":
        return
    if precision != "float32" and not trainer.optimizer.fusible:
        problem = (
            f"{precision} weights lose small updates with optimizer.kind {kind}, which rounds to nearest; "
            "choose apollo_mini, apollo or scale, or precision: float32"
        )
        raise SpecError([Problem("trainer.precision", problem, "invalid_value")])


def _obstacle(trainer: TrainerSpec, tokens_per_step: int, tokens_per_pass: int) -> str | None:
    if not trainer.optimizer.fusible:
        return (
            f"fused cannot be done by optimizer.kind {trainer.optimizer.kind}, which steps all weights at "
            "once; choose apollo_mini, apollo or scale, or step: two_phase"
        )
    if trainer.objective.kind not in LINEAR:
        return (
            f"fused needs an objective that is linear in the log-probabilities, and {trainer.objective.kind} "
            "is not: choose step: two_phase"
        )
    if tokens_per_step > tokens_per_pass:
        return (
            f"fused needs all rows of a step in one pass, and they may have {tokens_per_step} tokens "
            f"where tokens_per_pass is {tokens_per_pass}; set trainer.tokens_per_pass to "
            f"{tokens_per_step}, lower hyperparameters.batch_size, or choose step: two_phase"
        )
    return None

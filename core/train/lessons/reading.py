"""What a lesson makes of a file, and all that it may look at while it does.

The one idea: `Lesson.read` is given no spec but a `Reading`, so what encoded rows depend on is what stands
there, and rows that are kept for another run (`core.train.cache`) are found by it.
"""

from dataclasses import dataclass, field
from typing import Any, Self

from core.data.chat import TrainOn
from core.data.digests import RowDigests
from core.data.fitness import Objective
from core.data.lengths import Lengths
from core.data.overlength import LengthReport, Policy
from core.spec.job import JobSpec
from core.spec.objective import GrpoSpec, SftSpec

RESOLVED = "a resolved spec has one"


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows are to be read. The last two are those of sampled answers, else 0."""

    objective: Objective
    context_length: int
    on_overlength: Policy
    packing: bool
    train_on: TrainOn
    group_size: int = 0
    max_completion_tokens: int = 0

    @classmethod
    def of(cls, spec: JobSpec) -> Self:
        """The words of a resolved spec."""
        trainer, objective = spec.trainer, spec.trainer.objective
        assert trainer.context_length is not None, RESOLVED
        assert trainer.on_overlength is not None, RESOLVED
        sampled = (0, 0)
        if isinstance(objective, GrpoSpec):
            sampled = (objective.group_size, objective.max_completion_tokens)
        return cls(
            objective.kind,
            trainer.context_length,
            trainer.on_overlength,
            bool(trainer.packing),
            objective.train_on if isinstance(objective, SftSpec) else "all",
            *sampled,
        )


@dataclass(frozen=True, slots=True)
class Rows:
    """A file's rows as a lesson wants them, and what became of those that were too long.

    Each has a length in tokens, and `lines`: where in the file it came from. ``lengths`` are those of the
    rows as they stand in the file, before any is cut, dropped or packed.
    """

    rows: list[Any]
    report: LengthReport
    lengths: Lengths


@dataclass(frozen=True, slots=True)
class FileRows:
    """A file's rows, with the digests of those that stand in it; ``cached``: no line was read."""

    read: Rows
    digests: RowDigests = field(default_factory=RowDigests)
    cached: bool = False

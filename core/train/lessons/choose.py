"""Which lesson an objective is."""

from core.spec.errors import spec_failure
from core.spec.job import JobSpec
from core.train.lessons.lesson import Lesson
from core.train.lessons.preference import PreferenceLesson
from core.train.lessons.supervised import SupervisedLesson

_KINDS: dict[str, type[Lesson]] = {
    "pretrain": SupervisedLesson,
    "sft": SupervisedLesson,
    "dpo": PreferenceLesson,
}


def lesson_kind(spec: JobSpec) -> type[Lesson]:
    """The class whose objects teach the spec's objective. Raises RunFailure."""
    kind = spec.trainer.objective.kind
    if kind not in _KINDS:
        raise spec_failure(
            "objective_not_available", f"'{kind}' cannot be trained yet", param="trainer.objective"
        )
    return _KINDS[kind]

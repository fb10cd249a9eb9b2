"""Which lesson an objective is."""

from core.spec.job import JobSpec
from core.train.lessons.lesson import Lesson
from core.train.lessons.preference import PreferenceLesson
from core.train.lessons.reinforced import ReinforcedLesson
from core.train.lessons.supervised import SupervisedLesson

_KINDS: dict[str, type[Lesson]] = {
    "pretrain": SupervisedLesson,
    "sft": SupervisedLesson,
    "dpo": PreferenceLesson,
    "grpo": ReinforcedLesson,
}


def lesson_kind(spec: JobSpec) -> type[Lesson]:
    """The class whose objects teach the spec's objective."""
    return _KINDS[spec.trainer.objective.kind]

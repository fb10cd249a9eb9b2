"""How each objective turns a step's rows into gradients, and the validation file into metrics."""

from core.train.lessons.choose import lesson_kind
from core.train.lessons.lesson import Learnt, Lesson, Rows

__all__ = ["Learnt", "Lesson", "Rows", "lesson_kind"]

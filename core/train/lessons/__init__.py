"""How each objective turns a step's rows into gradients, and the validation file into metrics."""

from core.train.lessons.choose import lesson_kind
from core.train.lessons.lesson import Learnt, Lesson
from core.train.lessons.reading import FileRows, Reading, Rows

__all__ = ["FileRows", "Learnt", "Lesson", "Reading", "Rows", "lesson_kind"]

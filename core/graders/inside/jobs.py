"""The gradings that need a process of their own, by name.

A job is made from its settings in the serving loop, ``prepare``d there (imports, and nothing of a user's),
and ``run`` in a forked process, once for each payload.
"""

from collections.abc import Callable
from typing import Any, Protocol

from core.graders.inside.math_answer import MathAnswer
from core.graders.inside.reasoning_task import ReasoningTask
from core.graders.inside.similarity import Similarity
from core.graders.inside.source import Source


class Job(Protocol):
    """One kind of grading."""

    def prepare(self) -> None:
        """Import what is needed; whatever is raised refuses the grader, in these words."""

    def run(self, payload: dict[str, Any]) -> Any:
        """The reward."""

    def explain(self, error: BaseException) -> str:
        """An error of ``run`` in words for the grader's author."""


JOBS: dict[str, Callable[[dict[str, Any]], Job]] = {
    "math": MathAnswer,
    "python": Source,
    "reasoning_gym": ReasoningTask,
    "text_similarity": Similarity,
}

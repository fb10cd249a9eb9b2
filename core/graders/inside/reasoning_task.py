"""What a task of reasoning-gym says an answer is worth."""

from collections.abc import Callable
from typing import Any

from core.graders.inside.library import explained, library


class ReasoningTask:
    """The job: settings ``dataset``; payload ``input`` and ``entry`` (question, answer, metadata)."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.dataset: str = settings["dataset"]
        self.score: Callable[..., float] | None = None

    def prepare(self) -> None:
        """Import the library and find the task. Raises ValueError where it has none of that name."""
        factory = library("reasoning_gym.factory")
        library("reasoning_gym")  # registers its tasks
        self.score = factory.get_score_answer_fn(self.dataset)

    def run(self, payload: dict[str, Any]) -> float:
        """The task's score. Raises TypeError for an entry that is none."""
        assert self.score is not None
        entry, text = payload["entry"], payload["input"]
        if not isinstance(entry, dict) or not {"answer", "metadata"} <= set(entry):
            raise TypeError("an entry of reasoning-gym has question, answer and metadata")
        tagged = library("reasoning_gym.utils").extract_answer(text)
        return float(self.score(answer=text.strip() if tagged is None else tagged, entry=entry))

    def explain(self, error: BaseException) -> str:
        """The library's own words."""
        return explained(error)

"""What a run says about itself: one JSON line a fact, appended to ``events.jsonl`` in the run directory.

The worker follows that file; a researcher reads it with any tool. Times are unix seconds.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter

from core.spec.errors import JobError
from core.spec.file_read import FileRead
from core.spec.tree import Spec

CANARY_CODE: Final = "canary.passed"
"""Of a note with ``measured_bytes`` and, where there is a plan, ``predicted_bytes``: a step's peak."""


class Started(Spec):
    """Weights are loaded and rows are encoded; the first step is next."""

    kind: Literal["started"] = "started"
    at: float
    step: int
    """Steps already done: 0, or the step of the checkpoint that the run resumes from."""
    total_steps: int
    rows: int
    layers: dict[str, int]
    """How many decoder layers are streamed and how many checkpointed whole."""
    files: list[FileRead] = Field(default_factory=list)

    @property
    def words(self) -> str:
        """The event in a line."""
        begun = f"resumed from step {self.step}" if self.step else "started"
        plan = f"Training {begun}: {self.rows} rows, {self.total_steps} steps"
        return "; ".join([plan, *(file.words for file in self.files)])


class Noted(Spec):
    """Something that the user should know, such as rows that were dropped."""

    kind: Literal["noted"] = "noted"
    at: float
    level: Literal["info", "warn"]
    code: str
    message: str
    data: dict[str, int | float | str] = Field(default_factory=dict)


class StepDone(Spec):
    """One optimizer step is done."""

    kind: Literal["step"] = "step"
    at: float
    step: int
    total_steps: int
    trained_tokens: int
    """Tokens that carried loss, since step 1."""
    metrics: dict[str, float]
    seconds_left: float


class Evaluated(Spec):
    """The validation file was measured after ``step``."""

    kind: Literal["evaluated"] = "evaluated"
    at: float
    step: int
    metrics: dict[str, float]


class Saved(Spec):
    """A whole checkpoint lies at ``path``, relative to the run directory."""

    kind: Literal["saved"] = "saved"
    at: float
    step: int
    path: str
    metrics: dict[str, float]
    best_step: int | None = None
    """The step of the checkpoint that is kept for being the best, where one is."""


class Finished(Spec):
    """All steps are done and the last checkpoint holds the result."""

    kind: Literal["finished"] = "finished"
    at: float
    step: int
    trained_tokens: int
    metrics: dict[str, float]


class Stopped(Spec):
    """The run was asked to stop and did so after ``step``; it can be resumed."""

    kind: Literal["stopped"] = "stopped"
    at: float
    step: int


class Failed(Spec):
    """The run cannot go on."""

    kind: Literal["failed"] = "failed"
    at: float
    error: JobError


RunEvent = Annotated[
    Started | Noted | StepDone | Evaluated | Saved | Finished | Stopped | Failed,
    Field(discriminator="kind"),
]

run_event: TypeAdapter[RunEvent] = TypeAdapter(RunEvent)
"""Reads one line: ``run_event.validate_json(line)``."""

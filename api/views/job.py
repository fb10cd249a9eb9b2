"""A fine-tuning job, its events and its checkpoints as the API shows them."""

from typing import Any, Literal, Self

from pydantic import BaseModel

from api.views.method import method_of
from api.views.shape import unix
from core.spec.job import JobSpec
from core.spec.trainer import TrainerSpec
from core.store.jobs import spec_of
from core.store.keys import Principal
from core.store.queue import Reason, Waiting
from core.store.tables import CheckpointRow, EventRow, FileRow, JobRow


class ProgressView(BaseModel):
    """How far a job is."""

    step: int
    total_steps: int | None
    attempts: int


class QueueView(BaseModel):
    """Where a queued job stands, and what it waits for."""

    position: int
    reason: Reason
    message: str
    until: int | None

    @classmethod
    def of(cls, waiting: Waiting) -> Self:
        """The view of a place in the queue."""
        return cls(
            position=waiting.position,
            reason=waiting.reason,
            message=waiting.message,
            until=unix(waiting.until),
        )


class MemoryView(BaseModel):
    """Peak of a device's memory: by the plan, and measured on the longest row before step one."""

    predicted_bytes: int | None
    measured_bytes: int | None


class JobView(BaseModel):
    """OpenAI's fine-tuning job object; `trainer`, `phase` and `progress` are ours."""

    id: str
    object: Literal["fine_tuning.job"] = "fine_tuning.job"
    created_at: int
    finished_at: int | None
    estimated_finish: int | None
    model: str
    fine_tuned_model: str | None
    organization_id: str
    status: str
    phase: str | None
    progress: ProgressView
    queue: QueueView | None
    memory: MemoryView
    training_file: str
    validation_file: str | None
    result_files: list[str]
    seed: int
    hyperparameters: dict[str, Any] | None
    method: dict[str, Any]
    trained_tokens: int | None
    user_provided_suffix: str | None
    metadata: dict[str, Any]
    integrations: list[Any]
    error: dict[str, Any] | None
    trainer: TrainerSpec

    @classmethod
    def of(cls, row: JobRow, principal: Principal, waiting: Waiting | None) -> Self:
        """The view of a row; ``waiting`` is known of one that is queued."""
        spec: JobSpec = spec_of(row)
        method = method_of(spec)
        return cls(
            id=row.id,
            created_at=unix(row.created_at) or 0,
            finished_at=unix(row.finished_at),
            estimated_finish=unix(row.estimated_finish),
            model=spec.model,
            fine_tuned_model=row.fine_tuned_model,
            organization_id=principal.organization_id,
            status=row.status,
            phase=row.phase,
            progress=ProgressView(
                step=row.step, total_steps=row.total_steps, attempts=row.attempts
            ),
            queue=None if waiting is None else QueueView.of(waiting),
            memory=MemoryView(
                predicted_bytes=row.predicted_bytes, measured_bytes=row.measured_bytes
            ),
            training_file=spec.training_file,
            validation_file=spec.validation_file,
            result_files=[] if row.result_file_id is None else [row.result_file_id],
            seed=spec.seed,
            hyperparameters=(method.get("supervised") or {}).get("hyperparameters"),
            method=method,
            trained_tokens=row.trained_tokens,
            user_provided_suffix=row.suffix,
            metadata=row.tags,
            integrations=[],
            error=row.error,
            trainer=spec.trainer,
        )


class EventView(BaseModel):
    """One event. ``data.code`` is for machines, ``message`` for people."""

    id: str
    object: Literal["fine_tuning.job.event"] = "fine_tuning.job.event"
    created_at: int
    level: str
    type: str
    message: str
    data: dict[str, Any] | None
    sequence: int

    @classmethod
    def of(cls, row: EventRow) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            created_at=unix(row.created_at) or 0,
            level=row.level,
            type=row.type,
            message=row.message,
            data=row.data,
            sequence=row.sequence,
        )


class CheckpointFileView(BaseModel):
    """One file of a checkpoint; ``id`` is what `files.content` takes."""

    id: str
    path: str
    kind: str | None
    bytes: int
    sha256: str


class CheckpointView(BaseModel):
    """OpenAI's checkpoint object, with the files that make it up."""

    id: str
    object: Literal["fine_tuning.job.checkpoint"] = "fine_tuning.job.checkpoint"
    created_at: int
    fine_tuned_model_checkpoint: str
    fine_tuning_job_id: str
    step_number: int
    metrics: dict[str, Any]
    files: list[CheckpointFileView]

    @classmethod
    def of(cls, row: CheckpointRow, files: list[FileRow], model: str) -> Self:
        """The view of a row; ``model`` is the name of the job's tuned model, present or to come."""
        return cls(
            id=row.id,
            created_at=unix(row.created_at) or 0,
            fine_tuned_model_checkpoint=f"{model}:ckpt-step-{row.step}",
            fine_tuning_job_id=row.job_id,
            step_number=row.step,
            metrics={"step": row.step, **row.metrics},
            files=[
                CheckpointFileView(
                    id=file.id,
                    path=file.filename,
                    kind=file.kind,
                    bytes=file.bytes,
                    sha256=file.sha256,
                )
                for file in files
            ],
        )

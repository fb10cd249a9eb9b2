"""Jobs and what is known of their runs. The row is the job; the queue is only a doorbell."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Double,
    ForeignKey,
    Identity,
    Index,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row

JOB_STATUSES = (
    "validating_files",
    "queued",
    "running",
    "paused",
    "succeeded",
    "failed",
    "cancelled",
)


class JobRow(Row):
    """A fine-tuning job: what was asked for, where it stands, and who holds it."""

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(f"status in {JOB_STATUSES}", name="status"),
        CheckConstraint("(status = 'running') = (lease_token is not null)", name="lease"),
        Index("ix_jobs_status", "status", "position"),
        Index(
            "ix_jobs_without_results",
            "position",
            postgresql_where=text("result_file_id is null and step > 0"),
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    spec: Mapped[dict[str, Any]]
    """The resolved JobSpec."""
    suffix: Mapped[str | None]
    tags: Mapped[dict[str, Any]]
    """The ``metadata`` of the API."""

    status: Mapped[str]
    phase: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    estimated_finish: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    pause_requested_at: Mapped[datetime | None]

    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    """Of its project's jobs the higher goes first."""
    not_before: Mapped[datetime | None]
    """A job that failed by no fault of its user's rests until then."""
    failures: Mapped[int] = mapped_column(default=0, server_default="0")
    """Such failures since the last checkpoint."""
    predicted_bytes: Mapped[int | None]
    """Peak of a device's memory by the plan."""
    measured_bytes: Mapped[int | None]
    """The same, measured on the longest row before step one."""

    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)

    step: Mapped[int] = mapped_column(default=0)
    total_steps: Mapped[int | None]
    trained_tokens: Mapped[int | None]
    fine_tuned_model: Mapped[str | None] = mapped_column(unique=True)
    model_deleted_at: Mapped[datetime | None]
    result_file_id: Mapped[str | None]
    """The CSV of its metrics; the id stays when its user deletes the file."""
    error: Mapped[dict[str, Any] | None]
    events_written: Mapped[int] = mapped_column(default=0)


class AttemptRow(Row):
    """One try at a job by one worker."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[str]
    device: Mapped[str | None]
    """What its trainer computes with, by name; null: not known."""
    lines_followed: Mapped[int] = mapped_column(default=0)
    """Lines of this attempt's events.jsonl that are in the database."""
    devices: Mapped[int] = mapped_column(default=1, server_default="1")
    """How many it occupies for as long as it lasts."""
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]


class EventRow(Row):
    """A fact about a job, in the order in which it was written: 1, 2, 3, without gaps."""

    __tablename__ = "events"
    __table_args__ = (CheckConstraint("level in ('info', 'warn', 'error')", name="level"),)

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    level: Mapped[str]
    type: Mapped[str]
    message: Mapped[str]
    data: Mapped[dict[str, Any] | None]


class MetricRow(Row):
    """One number of one step. A step that is run again after a takeover overwrites its own."""

    __tablename__ = "metrics"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[float] = mapped_column(Double)


class CheckpointRow(Row):
    """A whole checkpoint: all its files are stored when this row appears."""

    __tablename__ = "checkpoints"
    __table_args__ = (UniqueConstraint("job_id", "step"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    step: Mapped[int]
    metrics: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

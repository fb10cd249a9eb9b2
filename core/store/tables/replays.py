"""Requests that must not be carried out twice."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row


class ReplayRow(Row):
    """A request that made a job, so that the same request again finds it."""

    __tablename__ = "replays"
    __table_args__ = (Index("ix_replays_body", "key_id", "body_sha256"),)

    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    """The Idempotency-Key; the job's own id where none was given."""
    body_sha256: Mapped[str]
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

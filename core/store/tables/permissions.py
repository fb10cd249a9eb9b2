"""Checkpoints that their project shares with another."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row


class PermissionRow(Row):
    """A project other than its own may train on from a checkpoint."""

    __tablename__ = "checkpoint_permissions"
    __table_args__ = (UniqueConstraint("checkpoint_id", "project_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    checkpoint_id: Mapped[str] = mapped_column(ForeignKey("checkpoints.id", ondelete="CASCADE"))
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

"""Uploads that arrive in parts."""

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row

UPLOAD_STATUSES = ("pending", "completed", "cancelled", "expired")


class UploadRow(Row):
    """A file that is to come in parts, and the file that it became."""

    __tablename__ = "uploads"
    __table_args__ = (CheckConstraint(f"status in {UPLOAD_STATUSES}", name="status"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    filename: Mapped[str]
    purpose: Mapped[str]
    bytes: Mapped[int]
    """How many there are to be."""
    status: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]
    file_lifetime_s: Mapped[int | None]
    """How long the file that it becomes will stay; null: until it is deleted."""
    file_id: Mapped[str | None] = mapped_column(ForeignKey("files.id", ondelete="SET NULL"))


class PartRow(Row):
    """Bytes of an upload that is not complete yet. The request to complete it gives their order."""

    __tablename__ = "upload_parts"

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    upload_id: Mapped[str] = mapped_column(ForeignKey("uploads.id", ondelete="CASCADE"), index=True)
    blob_id: Mapped[str] = mapped_column(ForeignKey("blobs.id"), index=True)
    bytes: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

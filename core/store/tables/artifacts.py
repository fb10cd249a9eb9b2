"""Files as a user sees them, and the blobs that hold their bytes."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, LargeBinary, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row

FILE_STATUSES = ("uploaded", "processed", "error")


class BlobRow(Row):
    """Bytes that are whole: the row appears when the last byte is stored, never before."""

    __tablename__ = "blobs"

    id: Mapped[str] = mapped_column(primary_key=True)
    location: Mapped[str]
    """``postgres:``, or the URL of the object that holds the content."""
    bytes: Mapped[int]
    sha256: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class BlobPieceRow(Row):
    """One piece of a blob that lives in Postgres. All pieces but the last are of one size."""

    __tablename__ = "blob_pieces"

    blob_id: Mapped[str] = mapped_column(
        ForeignKey("blobs.id", ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        primary_key=True,
    )
    number: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class FileRow(Row):
    """A File of the API: uploaded by a user, or an artifact of a job."""

    __tablename__ = "files"
    __table_args__ = (CheckConstraint(f"status in {FILE_STATUSES}", name="status"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    """Order of creation: what pages are cut by."""
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    purpose: Mapped[str]
    filename: Mapped[str]
    status: Mapped[str]
    status_details: Mapped[str | None]
    report: Mapped[dict[str, Any] | None]
    """What `prepare` found: rows, problems with their lines."""
    blob_id: Mapped[str] = mapped_column(ForeignKey("blobs.id"), index=True)
    bytes: Mapped[int]
    sha256: Mapped[str]
    checkpoint_id: Mapped[str | None] = mapped_column(
        ForeignKey("checkpoints.id", ondelete="CASCADE"), index=True
    )
    kind: Mapped[str | None]
    """Of a checkpoint's file: weights, tokenizer, optimizer, state or manifest."""
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    """From then on it is not there; null: it stays until it is deleted."""

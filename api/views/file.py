"""A File as the API shows it."""

from typing import Any, Literal, Self

from pydantic import BaseModel

from api.views.shape import unix
from core.store.tables import FileRow


class FileView(BaseModel):
    """OpenAI's file object, and ours: the hash, the report of `prepare`, the role in a checkpoint."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: str
    status_details: str | None
    sha256: str
    validation: dict[str, Any] | None
    kind: str | None

    @classmethod
    def of(cls, row: FileRow) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            bytes=row.bytes,
            created_at=unix(row.created_at) or 0,
            expires_at=unix(row.expires_at),
            filename=row.filename,
            purpose=row.purpose,
            status=row.status,
            status_details=row.status_details,
            sha256=row.sha256,
            validation=row.report,
            kind=row.kind,
        )

"""Uploads and their parts in OpenAI's shape."""

from typing import Literal, Self

from pydantic import BaseModel

from api.views.file import FileView
from api.views.shape import unix
from core.store.tables import FileRow, PartRow, UploadRow


class UploadView(BaseModel):
    """A file that comes in parts; ``file`` is there once it is complete."""

    id: str
    object: Literal["upload"] = "upload"
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: str
    file: FileView | None

    @classmethod
    def of(cls, row: UploadRow, file: FileRow | None = None) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            bytes=row.bytes,
            created_at=unix(row.created_at) or 0,
            expires_at=unix(row.expires_at) or 0,
            filename=row.filename,
            purpose=row.purpose,
            status=row.status,
            file=None if file is None else FileView.of(file),
        )


class PartView(BaseModel):
    """One part."""

    id: str
    object: Literal["upload.part"] = "upload.part"
    created_at: int
    upload_id: str

    @classmethod
    def of(cls, row: PartRow) -> Self:
        """The view of a row."""
        return cls(id=row.id, created_at=unix(row.created_at) or 0, upload_id=row.upload_id)

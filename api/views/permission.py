"""A permission on a checkpoint as the API shows it."""

from typing import Literal, Self

from pydantic import BaseModel

from api.views.shape import unix
from core.store.tables import PermissionRow


class PermissionView(BaseModel):
    """OpenAI's checkpoint permission object."""

    id: str
    object: Literal["checkpoint.permission"] = "checkpoint.permission"
    created_at: int
    project_id: str

    @classmethod
    def of(cls, row: PermissionRow) -> Self:
        """The view of a row."""
        return cls(id=row.id, created_at=unix(row.created_at) or 0, project_id=row.project_id)

"""Projects, and the keys that open them. A key is kept only as a hash."""

from datetime import datetime

from sqlalchemy import ForeignKey, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row


class ProjectRow(Row):
    """The tenant: every file and job belongs to one."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    organization_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    served_at: Mapped[datetime | None]
    """When a worker last took a job of it."""


class KeyRow(Row):
    """A bearer key of a project. ``hint`` is the tail of the secret, enough to tell keys apart."""

    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    secret_sha256: Mapped[str] = mapped_column(unique=True)
    hint: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]

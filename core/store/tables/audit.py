"""What was written through the API, and by whom. Nothing refers to these rows, nor they to others."""

from datetime import datetime

from sqlalchemy import BigInteger, Identity, func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row


class AuditRow(Row):
    """One request that was no reading, also one that was refused; null where nobody was known."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp(), index=True)
    organization_id: Mapped[str | None]
    project_id: Mapped[str | None]
    key_id: Mapped[str | None]
    request_id: Mapped[str]
    client: Mapped[str | None]
    """The address that the request came from."""
    method: Mapped[str]
    route: Mapped[str]
    """The template, not the path."""
    object_id: Mapped[str | None]
    status: Mapped[int]

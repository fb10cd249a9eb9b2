"""The log of writes: who asked for what and how it was answered. Never a body, never a secret."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from core.store.leases import from_now
from core.store.tables import AuditRow

LONGEST = 255
ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Write:
    """A request that was no reading. What a sender chose freely is cut to LONGEST characters."""

    organization_id: str | None
    project_id: str | None
    key_id: str | None
    request_id: str
    client: str | None
    method: str
    route: str
    object_id: str | None
    status: int


def add_write(session: Session, write: Write) -> None:
    """Keep it, at the database's time."""
    values = {
        name: value[:LONGEST] if isinstance(value, str) else value
        for name, value in asdict(write).items()
    }
    session.execute(insert(AuditRow).values(**values))


def writes(
    session: Session, *, project_id: str | None = None, since: datetime | None = None
) -> Iterator[AuditRow]:
    """What was written, oldest first, a few hundred rows in memory at a time."""
    query = select(AuditRow).order_by(AuditRow.id)
    if project_id is not None:
        query = query.where(AuditRow.project_id == project_id)
    if since is not None:
        query = query.where(AuditRow.at >= since)
    return iter(session.scalars(query.execution_options(yield_per=ROWS_AT_ONCE)))


def forget_old_writes(session: Session, older_than_s: float) -> None:
    """Remove what is older."""
    session.execute(delete(AuditRow).where(AuditRow.at < from_now(-older_than_s)))

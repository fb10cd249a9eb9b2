"""Events of a job: 1, 2, 3, without gaps, written in the transaction of the change that they tell."""

from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.store.ids import new_id
from core.store.paging import Order, Page, page_of
from core.store.tables import EventRow, JobRow

Level = Literal["info", "warn", "error"]


def add_event(
    session: Session,
    job: JobRow,
    message: str,
    *,
    code: str,
    level: Level = "info",
    type: Literal["message", "metrics"] = "message",
    data: dict[str, Any] | None = None,
) -> None:
    """The next event of ``job``, whose row the caller has locked or just made."""
    job.events_written += 1
    session.add(
        EventRow(
            job_id=job.id,
            sequence=job.events_written,
            id=new_id("ftevent-"),
            level=level,
            type=type,
            message=message,
            data={"code": code, **(data or {})},
        )
    )


def list_events(
    session: Session, job: JobRow, *, after: str | None, limit: int, order: Order = "desc"
) -> Page[EventRow]:
    """One page of a job's events, newest first unless told otherwise."""
    query = select(EventRow).where(EventRow.job_id == job.id)
    return page_of(
        session, query, EventRow.id, EventRow.sequence, after=after, limit=limit, order=order
    )

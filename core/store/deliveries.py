"""What is to be told to webhooks: an outbox, written in the transaction of what it tells.

So nothing is lost and nothing is told that did not happen, whichever process dies. Who delivers takes rows
for a while, sends, and writes down how that went; if it dies in between, the row is due again when the while
is over, under the same event id. Times come from the caller's clock, which decides over days, not the
database's; a row that was never tried is due whatever the clocks say.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from core.spec.webhook import WebhookEvent
from core.store.ids import new_id
from core.store.paging import Page, page_of
from core.store.tables import DeliveryRow, EndpointRow, JobRow, SigningSecretRow


@dataclass(frozen=True, slots=True)
class Errand:
    """An event to be sent to one endpoint, for the ``attempt``-th time, signed with each secret."""

    event: WebhookEvent
    endpoint_id: str
    url: str
    secrets: tuple[str, ...]
    attempt: int


def tell_webhooks(session: Session, job: JobRow, type: str, **data: str) -> None:
    """``type`` happened to ``job``; every endpoint of its project that wants to know will be told.

    The endpoints are held until the transaction ends, so that one that is deleted meanwhile cannot
    make it fail.
    """
    wanted = select(EndpointRow.id).where(
        EndpointRow.project_id == job.project_id,
        EndpointRow.disabled_at.is_(None),
        EndpointRow.event_types.contains([type]),
    )
    endpoints = session.scalars(wanted.with_for_update(read=True, key_share=True)).all()
    event_id, told = new_id("evt_"), {"id": job.id, **data}
    session.add_all(
        DeliveryRow(event_id=event_id, endpoint_id=id, type=type, data=told) for id in endpoints
    )


def claim_deliveries(
    session: Session, now: datetime, *, most: int, busy: Collection[str], held_s: float
) -> list[Errand]:
    """Up to ``most`` due deliveries, the oldest of each endpoint that is not ``busy``.

    Nobody else gets them for ``held_s`` seconds.
    """
    due = (
        DeliveryRow.status == "pending",
        or_(DeliveryRow.due_at.is_(None), DeliveryRow.due_at <= now),
        DeliveryRow.endpoint_id.not_in(busy),
    )
    first = func.min(DeliveryRow.position)
    oldest = select(first).where(*due).group_by(DeliveryRow.endpoint_id).order_by(first).limit(most)
    query = select(DeliveryRow).where(*due, DeliveryRow.position.in_(oldest))
    errands = []
    for row in session.scalars(query.with_for_update(skip_locked=True)).all():
        row.attempts += 1
        row.due_at = now + timedelta(seconds=held_s)
        errands.append(_errand(session, row, now))
    return errands


def delivered(session: Session, errand: Errand, now: datetime, status_code: int) -> None:
    """The receiver has it."""
    _settle(session, errand, status="delivered", finished_at=now, last_status_code=status_code)


def not_delivered(
    session: Session,
    errand: Errand,
    now: datetime,
    *,
    wait_s: float | None,
    status_code: int | None,
    problem: str | None,
) -> None:
    """It is sent again in ``wait_s`` seconds, or given up if that is None."""
    told = {"last_status_code": status_code, "last_problem": problem}
    if wait_s is None:
        _settle(session, errand, status="given_up", finished_at=now, **told)
    else:
        _settle(session, errand, due_at=now + timedelta(seconds=wait_s), **told)


def disable_endpoint(session: Session, endpoint_id: str, now: datetime, status_code: int) -> None:
    """The receiver wants nothing more: what was to be sent to it is given up."""
    # The endpoint first, as who deletes one does, or the two could wait for each other.
    session.execute(
        update(EndpointRow).where(EndpointRow.id == endpoint_id).values(disabled_at=now)
    )
    session.execute(
        update(DeliveryRow)
        .where(DeliveryRow.endpoint_id == endpoint_id, DeliveryRow.status == "pending")
        .values(status="given_up", finished_at=now, last_status_code=status_code)
    )


def list_deliveries(
    session: Session, endpoint: EndpointRow, *, after: str | None, limit: int
) -> Page[DeliveryRow]:
    """One page of what was sent, or is to be, to an endpoint of the caller's project; newest first."""
    query = select(DeliveryRow).where(DeliveryRow.endpoint_id == endpoint.id)
    return page_of(
        session, query, DeliveryRow.event_id, DeliveryRow.position, after=after, limit=limit
    )


def secrets_of(session: Session, endpoint_id: str, now: datetime) -> tuple[str, ...]:
    """The secrets that sign at ``now``, the newest first."""
    query = select(SigningSecretRow.secret).where(
        SigningSecretRow.endpoint_id == endpoint_id,
        or_(SigningSecretRow.expires_at.is_(None), SigningSecretRow.expires_at > now),
    )
    return tuple(session.scalars(query.order_by(SigningSecretRow.position.desc())))


def forget_old_deliveries(session: Session, before: datetime) -> None:
    """Remove what was delivered or given up earlier."""
    session.execute(delete(DeliveryRow).where(DeliveryRow.finished_at < before))


def _errand(session: Session, row: DeliveryRow, now: datetime) -> Errand:
    endpoint = session.get_one(EndpointRow, row.endpoint_id)
    event = WebhookEvent(row.event_id, row.type, int(row.created_at.timestamp()), row.data)
    secrets = secrets_of(session, row.endpoint_id, now)
    return Errand(event, row.endpoint_id, endpoint.url, secrets, row.attempts)


def _settle(session: Session, errand: Errand, **values: Any) -> None:
    """Only as long as nobody has begun another try meanwhile, and the delivery is there at all."""
    session.execute(
        update(DeliveryRow)
        .where(
            DeliveryRow.event_id == errand.event.id,
            DeliveryRow.endpoint_id == errand.endpoint_id,
            DeliveryRow.attempts == errand.attempt,
            DeliveryRow.status == "pending",
        )
        .values(**values)
    )

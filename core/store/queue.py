"""Who is next, and why somebody waits.

The queue is an order of the rows that wait: first the projects with the fewest running jobs, among these
the more urgent job, then the project that was served longest ago, then the older job. So no project can
starve another, whatever priority it gives its own jobs. A job that rests after a failure, or that needs
more devices or memory than a worker has (`placement`), is passed over, as are all jobs of a project that has
used up a quota.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    SQLColumnExpression,
    func,
    or_,
    select,
    text,
    tuple_,
)
from sqlalchemy.orm import Session

from core.store.leases import Lease, claim_job
from core.store.placement import ANY, Misfit, Room, goes_to, reason_of
from core.store.quotas import UNLIMITED, Held, Quotas, has_room, held_back
from core.store.tables import JobRow, ProjectRow, WorkerRow
from core.store.workers import live_workers

Reason = Literal["backing_off", "project_quota", "no_worker", "workers_busy"] | Misfit
_RUNNING = (
    select(JobRow.project_id, func.count().label("jobs"))
    .where(JobRow.status == "running")
    .group_by(JobRow.project_id)
    .subquery()
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job's place, from 1, and what it waits for.

    ``until`` is known of a back-off, and of a quota that is renewed each day.
    """

    position: int
    reason: Reason
    message: str
    until: datetime | None = None


def claim_next(
    session: Session,
    *,
    worker: str,
    lease_s: float,
    device: str | None = None,
    room: Room = ANY,
    quotas: Quotas = UNLIMITED,
) -> Lease | None:
    """The first job in the queue that may run now and has ``room`` on the worker; None if there is none.

    ``quotas`` are those of projects that have none of their own.
    """
    query = _in_order(select(JobRow.id, JobRow.project_id)).where(_ready(), goes_to(session, room))
    held = _held_projects(session, quotas)
    while True:
        free = query.where(JobRow.project_id.not_in(held)).limit(1)
        found = session.execute(free.with_for_update(skip_locked=True, of=JobRow)).one_or_none()
        if found is None:
            return None
        job_id, project_id = found
        if not has_room(session, project_id, quotas):  # another worker took the last room meanwhile
            held.add(project_id)
            continue
        lease = claim_job(
            session, job_id, worker=worker, lease_s=lease_s, device=device, devices=room.devices
        )
        if lease is not None:
            return lease


def queued_jobs(session: Session, quotas: Quotas = UNLIMITED) -> list[str]:
    """Ids of the jobs that wait for a worker and may run now, the next first."""
    free = JobRow.project_id.not_in(_held_projects(session, quotas))
    return list(session.scalars(_in_order(select(JobRow.id)).where(_ready(), free)))


def waiting(
    session: Session, jobs: Sequence[JobRow], quotas: Quotas = UNLIMITED
) -> dict[str, Waiting]:
    """Of each of ``jobs`` that is queued: its place and what it waits for, by id."""
    asked = [job for job in jobs if job.status == "queued"]
    if not asked:
        return {}
    before = _before(session, [job.id for job in asked])
    now = session.scalar(select(func.clock_timestamp()))
    assert now is not None
    workers = live_workers(session)
    held = held_back(session, sorted({job.project_id for job in asked}), quotas)
    return {
        job.id: Waiting(
            before.get(job.id, 0) + 1, *_reason(job, now, workers, held.get(job.project_id))
        )
        for job in asked
    }


def _before(session: Session, ids: Sequence[str]) -> dict[str, int]:
    """How many jobs are before each of these: counted where they are, for the queue may be long."""
    keys: list[Label[Any]] = [key.label(f"key_{number}") for number, key in enumerate(_order())]
    mine = _queue(select(JobRow.id, *keys)).where(JobRow.id.in_(ids)).subquery()
    other = _queue(select(*keys)).subquery()
    is_before = tuple_(*other.c) < tuple_(*(mine.c[key.name] for key in keys))
    query = select(mine.c.id, func.count()).join(other, is_before).group_by(mine.c.id)
    return dict(session.execute(query).all())


def _reason(
    job: JobRow, now: datetime, workers: Sequence[WorkerRow], held: Held | None
) -> tuple[Reason, str, datetime | None]:
    if job.not_before is not None and job.not_before > now:
        return "backing_off", "The last attempt failed; the next one begins soon", job.not_before
    if held is not None:
        return "project_quota", held.message, held.until
    if not workers:
        return "no_worker", "No worker is there; start one with `castalia worker`", None
    misfit = reason_of(job, workers)
    if misfit is not None:
        return *misfit, None
    return "workers_busy", "All workers are busy", None


def _in_order(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    return _queue(query).order_by(*_order())


def _queue(query: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    """Of the rows that wait, with what their order is made of."""
    return (
        query.where(JobRow.status == "queued")
        .join(ProjectRow, ProjectRow.id == JobRow.project_id)
        .outerjoin(_RUNNING, _RUNNING.c.project_id == JobRow.project_id)
    )


def _order() -> tuple[SQLColumnExpression[Any], ...]:
    return (
        func.coalesce(_RUNNING.c.jobs, 0),
        -JobRow.priority,
        func.coalesce(ProjectRow.served_at, text("'-infinity'::timestamptz")),
        JobRow.position,
    )


def _held_projects(session: Session, quotas: Quotas) -> set[str]:
    query = select(JobRow.project_id).where(JobRow.status == "queued").distinct()
    return set(held_back(session, list(session.scalars(query)), quotas))


def _ready() -> ColumnElement[bool]:
    return or_(JobRow.not_before.is_(None), JobRow.not_before <= func.clock_timestamp())

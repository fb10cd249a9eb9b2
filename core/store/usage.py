"""What projects use of their quotas, counted from the rows themselves: nothing has to be kept in step.

running_jobs     jobs that a worker holds
queued_jobs      jobs that wait for their files or for a worker
stored_bytes     files, those of checkpoints among them, and parts of uploads that are not complete
device_seconds   of attempts since midnight UTC, each times the devices that it occupies
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Select, func, select, union_all
from sqlalchemy.orm import Session

from core.store.tables import AttemptRow, FileRow, JobRow, PartRow, UploadRow

Columns = Select[*tuple[Any, ...]]
Quota = Literal["running_jobs", "queued_jobs", "stored_bytes", "device_seconds"]
WAITING = ("validating_files", "queued")


def used(session: Session, quota: Quota, project_ids: Sequence[str]) -> dict[str, int]:
    """What each of these projects uses of ``quota`` now, in its unit; seconds are rounded up."""
    if not project_ids:
        return {}
    found = dict.fromkeys(project_ids, 0)
    for project_id, amount in session.execute(_QUERIES[quota](project_ids)):
        found[project_id] = int(amount)
    return found


def end_of_day(session: Session) -> tuple[datetime, float]:
    """When the day ends that device seconds are counted in, and in how many seconds that is."""
    end = func.date_trunc("day", func.clock_timestamp(), "UTC") + timedelta(days=1)
    left = func.extract("epoch", end - func.clock_timestamp())
    until, seconds = session.execute(select(end, left)).one()
    return until, float(seconds)


def _jobs(*statuses: str) -> Callable[[Sequence[str]], Columns]:
    def query(project_ids: Sequence[str]) -> Columns:
        return (
            select(JobRow.project_id, func.count())
            .where(JobRow.project_id.in_(project_ids), JobRow.status.in_(statuses))
            .group_by(JobRow.project_id)
        )

    return query


def _stored(project_ids: Sequence[str]) -> Columns:
    files = select(FileRow.project_id, FileRow.bytes).where(FileRow.project_id.in_(project_ids))
    parts = (
        select(UploadRow.project_id, PartRow.bytes)
        .join(PartRow, PartRow.upload_id == UploadRow.id)
        .where(UploadRow.project_id.in_(project_ids))
    )
    both = union_all(files, parts).subquery()
    return select(both.c.project_id, func.sum(both.c.bytes)).group_by(both.c.project_id)


def _device_seconds(project_ids: Sequence[str]) -> Columns:
    now = func.clock_timestamp()
    midnight = func.date_trunc("day", now, "UTC")
    ended = func.coalesce(AttemptRow.ended_at, now)
    lasted = func.extract("epoch", ended - func.greatest(AttemptRow.started_at, midnight))
    return (
        select(JobRow.project_id, func.ceil(func.sum(lasted * AttemptRow.devices)))
        .join(AttemptRow, AttemptRow.job_id == JobRow.id)
        .where(JobRow.project_id.in_(project_ids), ended > midnight)
        .group_by(JobRow.project_id)
    )


_QUERIES: dict[Quota, Callable[[Sequence[str]], Columns]] = {
    "running_jobs": _jobs("running"),
    "queued_jobs": _jobs(*WAITING),
    "stored_bytes": _stored,
    "device_seconds": _device_seconds,
}

"""A job's metrics as its events told them, and the file that they become when it ends.

Events are what a client has seen: a step that was walked again after a takeover is told once, so the file
says what the events say. They are read in pages, so that their number costs no memory.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.store.blobs import Blob
from core.store.files import RESULTS_PURPOSE, add_file
from core.store.jobs import TERMINAL
from core.store.tables import EventRow, JobRow, MetricRow


def metric_names(session: Session, job_id: str) -> list[str]:
    """The names of all that was measured, sorted."""
    query = select(MetricRow.name).where(MetricRow.job_id == job_id).distinct()
    return sorted(session.scalars(query))


def metric_events(
    session: Session, job_id: str, *, after: int, limit: int
) -> list[tuple[int, dict[str, Any]]]:
    """The data of the next events with metrics beyond the sequence ``after``, with their sequences."""
    query = (
        select(EventRow.sequence, EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == "metrics", EventRow.sequence > after)
        .order_by(EventRow.sequence)
        .limit(limit)
    )
    return [(sequence, data or {}) for sequence, data in session.execute(query)]


def add_results(session: Session, job: JobRow, blob: Blob) -> None:
    """The stored CSV becomes the result file of ``job``, whose row the caller has locked."""
    file = add_file(
        session, job.project_id, filename=f"{job.id}.csv", purpose=RESULTS_PURPOSE, blob=blob
    )
    job.result_file_id = file.id


def jobs_without_results(session: Session, limit: int) -> Sequence[str]:
    """Ids of jobs that ended where no worker wrote their results: a lost one's, a cancelled paused one."""
    query = (
        select(JobRow.id)
        .where(JobRow.status.in_(TERMINAL), JobRow.step > 0, JobRow.result_file_id.is_(None))
        .order_by(JobRow.position)
        .limit(limit)
    )
    return session.scalars(query).all()


def add_missing_results(session: Session, job_id: str, blob: Blob) -> bool:
    """The same for a job that ended without; False if somebody was faster."""
    query = select(JobRow).where(JobRow.id == job_id, JobRow.result_file_id.is_(None))
    job = session.scalar(query.with_for_update())
    if job is None:
        return False
    add_results(session, job, blob)
    return True

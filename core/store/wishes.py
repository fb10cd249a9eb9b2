"""What a user wants of a job: pause, resume, cancel. From every state, and as often as she likes.

A job that waits obeys at once. One that runs is asked, by a time in its row that its worker reads with the
next renewal of the lease: it finishes its step, saves, and lets go.

             validating_files  queued     running                paused      succeeded, failed, cancelled
    pause    paused            paused     asked                  as it is    refused
    resume   as it is          as it is   a pause is withdrawn   queued      refused
    cancel   cancelled         cancelled  asked                  cancelled   refused (cancelled: as it is)
"""

from sqlalchemy import func
from sqlalchemy.orm import Session

from core.store.errors import Conflict
from core.store.events import add_event
from core.store.jobs import (
    TERMINAL,
    FileCheck,
    end_job,
    locked_job,
    park_job,
    settle_files,
)
from core.store.quotas import UNLIMITED, Quotas, admit_job
from core.store.tables import JobRow


def cancel_job(session: Session, project_id: str, job_id: str) -> JobRow:
    """Raises NotFound, and Conflict if the job succeeded or failed."""
    row = locked_job(session, project_id, job_id)
    if row.status in ("succeeded", "failed"):
        raise _too_late(row, "cancelled")
    if row.status == "running":
        if row.cancel_requested_at is None:
            row.cancel_requested_at = func.now()
            row.phase = "cancelling"
            add_event(session, row, "Cancel requested", code="job.cancel_requested")
    elif row.status != "cancelled":
        end_job(session, row, "cancelled", "Job cancelled", code="job.cancelled")
    return _fresh(session, row)


def pause_job(session: Session, project_id: str, job_id: str) -> JobRow:
    """Raises NotFound, and Conflict if the job has ended or is about to be cancelled."""
    row = locked_job(session, project_id, job_id)
    if row.status in TERMINAL:
        raise _too_late(row, "paused")
    if row.cancel_requested_at is not None:
        raise Conflict(f"job '{job_id}' is being cancelled; it cannot be paused")
    if row.status == "running":
        if row.pause_requested_at is None:
            row.pause_requested_at = func.now()
            row.phase = "pausing"
            add_event(session, row, "Pause requested", code="job.pause_requested")
    elif row.status != "paused":
        park_job(session, row)
    return _fresh(session, row)


def resume_job(
    session: Session,
    project_id: str,
    job_id: str,
    unfit: FileCheck,
    quotas: Quotas = UNLIMITED,
) -> JobRow:
    """Raises NotFound, Conflict if the job has ended or is about to be cancelled, and QuotaExceeded.

    The job's files are looked at again: one that was deleted meanwhile fails it.
    """
    row = locked_job(session, project_id, job_id)
    if row.status in TERMINAL:
        raise _too_late(row, "resumed")
    if row.cancel_requested_at is not None:
        raise Conflict(f"job '{job_id}' is being cancelled; it cannot be resumed")
    if row.status == "paused":
        admit_job(session, project_id, quotas)
        row.failures = 0
        row.not_before = None
        row.status, row.phase = "validating_files", None
        add_event(session, row, "Job resumed by its user", code="job.resume_requested")
        settle_files(session, row, unfit)
    elif row.pause_requested_at is not None:
        row.pause_requested_at = None
        row.phase = "training"
        add_event(session, row, "The pause was withdrawn", code="job.resume_requested")
    return _fresh(session, row)


def _fresh(session: Session, row: JobRow) -> JobRow:
    session.flush()
    session.refresh(row)
    return row


def _too_late(row: JobRow, wish: str) -> Conflict:
    return Conflict(f"job '{row.id}' has already {_ended(row.status)}; it cannot be {wish}")


def _ended(status: str) -> str:
    return "been cancelled" if status == "cancelled" else status

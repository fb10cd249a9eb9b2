"""Who holds a job: claim, renew, hand back, end. Every write carries the lease token.

A claim is one guarded UPDATE, so of two workers that hear the same ring one gets the job. The token fences:
a worker that lost its lease finds no row with its token and can change nothing. Time is the database's,
so no two machines' clocks are ever compared.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.spec.job import JobSpec
from core.store.errors import LeaseLost
from core.store.events import add_event
from core.store.ids import new_id
from core.store.jobs import end_job, fail_job
from core.store.models import tuned_model_name
from core.store.tables import AttemptRow, JobRow


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one job, until it expires or somebody takes over."""

    job_id: str
    token: str
    attempt: int
    project_id: str
    spec: JobSpec


def claim_job(session: Session, job_id: str, *, worker: str, lease_s: float) -> Lease | None:
    """The job, if it is queued and still ours to take; None if somebody has it or it is gone."""
    token = new_id("lease_")
    claimed = session.scalar(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status == "queued")
        .values(
            status="running",
            phase="loading_model",
            lease_token=token,
            lease_expires_at=_from_now(lease_s),
            attempts=JobRow.attempts + 1,
            started_at=func.coalesce(JobRow.started_at, func.now()),
        )
        .returning(JobRow)
    )
    if claimed is None:
        return None
    session.add(AttemptRow(job_id=job_id, number=claimed.attempts, worker=worker, lines_followed=0))
    add_event(
        session,
        claimed,
        f"Fine-tuning job started (attempt {claimed.attempts})",
        code="job.started",
        data={"attempt": claimed.attempts, "worker": worker},
    )
    spec = JobSpec.parse(claimed.spec)
    return Lease(job_id, token, claimed.attempts, claimed.project_id, spec)


def renew_lease(session: Session, lease: Lease, *, lease_s: float) -> bool:
    """Hold on for another ``lease_s`` seconds; returns whether the user wants the job cancelled.

    Raises LeaseLost.
    """
    found = session.execute(
        update(JobRow)
        .where(*_held(lease))
        .values(lease_expires_at=_from_now(lease_s))
        .returning(JobRow.cancel_requested_at.is_not(None))
    ).one_or_none()
    if found is None:
        raise LeaseLost(f"the lease of attempt {lease.attempt} on job {lease.job_id} is gone")
    return bool(found[0])


def held_job(session: Session, lease: Lease) -> JobRow:
    """The job's row, locked. Raises LeaseLost."""
    row = session.scalar(
        select(JobRow)
        .where(*_held(lease))
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise LeaseLost(f"the lease of attempt {lease.attempt} on job {lease.job_id} is gone")
    return row


def succeed_job(session: Session, lease: Lease, *, trained_tokens: int) -> None:
    """The last checkpoint is stored and the job is done. Raises LeaseLost."""
    row = held_job(session, lease)
    row.fine_tuned_model = tuned_model_name(session, row)
    row.trained_tokens = trained_tokens
    _end_attempt(session, lease, "succeeded")
    message = f"New fine-tuned model created: {row.fine_tuned_model}"
    add_event(session, row, message, code="model.created")
    end_job(
        session,
        row,
        "succeeded",
        "The job has successfully completed",
        code="job.succeeded",
    )


def fail_attempt(session: Session, lease: Lease, error: JobError) -> None:
    """The job failed, and trying again would not help."""
    row = held_job(session, lease)
    _end_attempt(session, lease, error.code)
    if error.last_step is None:
        error = error.model_copy(update={"last_step": row.step})
    fail_job(session, row, error)


def cancel_attempt(session: Session, lease: Lease) -> None:
    """The run stopped because its user asked for it."""
    row = held_job(session, lease)
    _end_attempt(session, lease, "cancelled")
    end_job(session, row, "cancelled", "Job cancelled", code="job.cancelled")


def hand_back(session: Session, lease: Lease, reason: str) -> None:
    """Give the job up so that another worker can go on from its last checkpoint."""
    row = held_job(session, lease)
    _end_attempt(session, lease, "handed_back")
    _requeue(session, row, reason, code="job.handed_back")


def expire_leases(session: Session, *, max_attempts: int) -> list[str]:
    """Queue again every job whose worker is not heard from; returns their ids.

    A job that lost its worker ``max_attempts`` times fails, because it may be what kills them.
    """
    query = (
        select(JobRow)
        .where(JobRow.status == "running", JobRow.lease_expires_at < func.now())
        .with_for_update(skip_locked=True)
    )
    requeued = []
    for row in session.scalars(query):
        session.execute(_attempt_end(row.id, row.attempts, "worker_lost"))
        if row.cancel_requested_at is not None:
            end_job(session, row, "cancelled", "Job cancelled", code="job.cancelled")
        elif row.attempts >= max_attempts:
            fail_job(session, row, _worker_lost(row))
        else:
            _requeue(session, row, "Worker lost; the job goes on elsewhere", code="worker.lost")
            requeued.append(row.id)
    return requeued


def _requeue(session: Session, row: JobRow, message: str, *, code: str) -> None:
    row.status = "queued"
    row.phase = "waiting_for_worker"
    row.lease_token = None
    row.lease_expires_at = None
    row.estimated_finish = None
    add_event(session, row, message, code=code, level="warn", data={"attempt": row.attempts})


def _worker_lost(row: JobRow) -> JobError:
    return JobError(
        code="worker_lost",
        message=f"the worker was lost {row.attempts} times while it ran this job",
        fault="platform",
        retryable=True,
        hint="look at the worker's log; the last checkpoint is kept",
        last_step=row.step,
    )


def _held(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return (
        JobRow.id == lease.job_id,
        JobRow.status == "running",
        JobRow.lease_token == lease.token,
    )


def _from_now(seconds: float) -> ColumnElement[Any]:
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _end_attempt(session: Session, lease: Lease, outcome: str) -> None:
    session.execute(_attempt_end(lease.job_id, lease.attempt, outcome))


def _attempt_end(job_id: str, number: int, outcome: str) -> Any:
    return (
        update(AttemptRow)
        .where(AttemptRow.job_id == job_id, AttemptRow.number == number)
        .values(ended_at=func.now(), outcome=outcome)
    )

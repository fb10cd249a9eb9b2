"""How an attempt at a job ends. Each ending is one transaction that the attempt's lease guards.

succeeded     the last checkpoint is stored, and nobody asked for a cancel
failed        by the user's fault, or for the last of several times by anybody else's
queued again  handed back; or by the platform's fault, after a pause that doubles each time
paused, cancelled   as the user asked meanwhile
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.store.blobs import Blob
from core.store.events import add_event
from core.store.files import LOG_PURPOSE, add_file
from core.store.jobs import TERMINAL, end_job, fail_job, park_job
from core.store.leases import Lease, from_now, held_job, wish_of
from core.store.models import tuned_model_name
from core.store.placement import fits_elsewhere
from core.store.results import add_results
from core.store.tables import AttemptRow, JobRow

MOST_DOUBLINGS = 32
WORKER_LOST = "worker_lost"
MOVED = "The job needs more memory than was free; it goes to a larger worker"


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a job may fail by no fault of its user's since its last checkpoint, and how long it rests.

    ``first_delay_s`` doubles with every failure, up to ``longest_delay_s``.
    """

    max_attempts: int = 5
    first_delay_s: float = 2.0
    longest_delay_s: float = 300.0

    def delay_s(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row, at least one."""
        doublings = min(failures - 1, MOST_DOUBLINGS)
        return min(self.longest_delay_s, self.first_delay_s * 2.0**doublings)


def succeed_job(
    session: Session, lease: Lease, *, trained_tokens: int, results: Blob | None = None
) -> bool:
    """The last checkpoint is stored and the job is done. Raises LeaseLost.

    A cancel that was granted before is kept, also during the last step: then the job is cancelled, its last
    checkpoint stays, and False is returned. Of a pause nothing is left to be done.
    ``results``, here and below: the stored CSV of its metrics, which becomes a file if the job ends.
    """
    row = held_job(session, lease)
    row.trained_tokens = trained_tokens
    if wish_of(row) == "cancel":
        _end_attempt(session, lease, "stopped")
        _granted(session, row)
        _keep_results(session, row, results)
        return False
    row.fine_tuned_model = tuned_model_name(session, row)
    _end_attempt(session, lease, "succeeded")
    message = f"New fine-tuned model created: {row.fine_tuned_model}"
    add_event(session, row, message, code="model.created")
    end_job(session, row, "succeeded", "The job has successfully completed", code="job.succeeded")
    _keep_results(session, row, results)
    return True


def fail_attempt(
    session: Session,
    lease: Lease,
    error: JobError,
    retries: Retries,
    *,
    log: Blob | None = None,
    results: Blob | None = None,
) -> bool:
    """The run ended with ``error``; returns whether the job is queued again. Raises LeaseLost.

    A wish of the user's comes first: a job that should be cancelled or paused is. ``log`` holds the end
    of the trainer's log, which becomes a File that the error names.
    """
    row = held_job(session, lease)
    _end_attempt(session, lease, error.code)
    if _granted(session, row):
        _keep_results(session, row, results)
        return False
    if error.last_step is None:
        error = error.model_copy(update={"last_step": row.step})
    if fits_elsewhere(session, row, error):
        _requeue(session, row, MOVED, code="job.moved", reason=error.code)
        return True
    if log is not None:
        error = error.model_copy(update={"log_file_id": _log_file(session, lease, log)})
    again = _fail_or_retry(session, row, error, retries)
    _keep_results(session, row, results)
    return again


def stop_attempt(
    session: Session, lease: Lease, reason: str, *, results: Blob | None = None
) -> bool:
    """The run stopped in order; its last checkpoint is stored. Raises LeaseLost.

    The job is cancelled or paused if its user asked for that, else queued again, to go on elsewhere:
    returns whether it is.
    """
    row = held_job(session, lease)
    _end_attempt(session, lease, "stopped")
    if _granted(session, row):
        _keep_results(session, row, results)
        return False
    _requeue(session, row, reason, code="job.handed_back")
    return True


def expire_leases(session: Session, retries: Retries) -> list[str]:
    """End the attempts whose worker is not heard from; returns the ids of jobs that are queued again."""
    query = (
        select(JobRow)
        .where(JobRow.status == "running", JobRow.lease_expires_at < func.now())
        .with_for_update(skip_locked=True)
    )
    requeued = []
    for row in session.scalars(query):
        session.execute(_attempt_end(row.id, row.attempts, "worker_lost"))
        if _granted(session, row):
            continue
        if _fail_or_retry(session, row, _worker_lost(row), retries):
            requeued.append(row.id)
    return requeued


def _fail_or_retry(session: Session, row: JobRow, error: JobError, retries: Retries) -> bool:
    if error.fault == "user" or not error.retryable:
        fail_job(session, row, error)
        return False
    row.failures += 1
    if row.failures >= retries.max_attempts:
        fail_job(session, row, _given_up(error, row.failures))
        return False
    delay_s = retries.delay_s(row.failures)
    message = f"{error.message}; the job goes on from its last checkpoint in {delay_s:g} s"
    code = "worker.lost" if error.code == WORKER_LOST else "job.retried"
    told: dict[str, Any] = {"reason": error.code, "failures": row.failures}
    if error.log_file_id is not None:
        told["log_file_id"] = error.log_file_id
    _requeue(session, row, message, code=code, **told)
    row.not_before = from_now(delay_s)
    return True


def _keep_results(session: Session, row: JobRow, results: Blob | None) -> None:
    if results is not None and row.status in TERMINAL:
        add_results(session, row, results)


def _log_file(session: Session, lease: Lease, log: Blob) -> str:
    name = f"{lease.job_id}-attempt-{lease.attempt}.log"
    return add_file(session, lease.project_id, filename=name, purpose=LOG_PURPOSE, blob=log).id


def _granted(session: Session, row: JobRow) -> bool:
    """Whether the user had asked for an end of the run, which then is as she wished."""
    wish = wish_of(row)
    if wish == "cancel":
        end_job(session, row, "cancelled", "Job cancelled", code="job.cancelled")
    elif wish == "pause":
        park_job(session, row)
    return wish is not None


def _requeue(session: Session, row: JobRow, message: str, *, code: str, **data: Any) -> None:
    row.status = "queued"
    row.phase = "waiting_for_worker"
    row.lease_token = None
    row.lease_expires_at = None
    row.estimated_finish = None
    data["attempt"] = row.attempts
    add_event(session, row, message, code=code, level="warn", data=data)


def _worker_lost(row: JobRow) -> JobError:
    return JobError(
        code=WORKER_LOST,
        message="the worker was lost while it ran this job",
        fault="platform",
        retryable=True,
        hint="look at the worker's log; the last checkpoint is kept",
        last_step=row.step,
    )


def _given_up(error: JobError, failures: int) -> JobError:
    message = f"{error.message}; {failures} times since the last checkpoint"
    return error.model_copy(update={"message": message})


def _end_attempt(session: Session, lease: Lease, outcome: str) -> None:
    session.execute(_attempt_end(lease.job_id, lease.attempt, outcome))


def _attempt_end(job_id: str, number: int, outcome: str) -> Any:
    return (
        update(AttemptRow)
        .where(AttemptRow.job_id == job_id, AttemptRow.number == number)
        .values(ended_at=func.now(), outcome=outcome)
    )

"""Jobs as their user sees them: created, read, and moved on when their files are ready.

Every change of status is made here, in `wishes`, `leases` or `attempts`, with its event in the same
transaction.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.spec.job import JobSpec
from core.spec.trainer import PRIORITIES
from core.store.deliveries import tell_webhooks
from core.store.errors import NotFound
from core.store.events import add_event
from core.store.ids import new_id
from core.store.paging import Page, page_of
from core.store.quotas import UNLIMITED, Quotas, admit_job
from core.store.tables import FileRow, JobRow
from core.store.tables.jobs import JOB_STATUSES

TERMINAL = ("succeeded", "failed", "cancelled")
FileCheck = Callable[[JobSpec, str, dict[str, Any]], JobError | None]
"""Why a job cannot learn from a checked file: of its spec, the field that names the file, its report."""


def create_job(
    session: Session,
    project_id: str,
    spec: JobSpec,
    *,
    unfit: FileCheck,
    suffix: str | None = None,
    tags: dict[str, str] | None = None,
    quotas: Quotas = UNLIMITED,
) -> JobRow:
    """A new job: queued if its files are checked already, else waiting for them.

    It fails at once if a file is bad or ``unfit`` says why it is of no use to it. Raises QuotaExceeded.
    """
    admit_job(session, project_id, quotas)
    row = JobRow(
        id=new_id("ftjob-"),
        project_id=project_id,
        spec=spec.model_dump(mode="json"),
        suffix=suffix,
        tags=tags or {},
        status="validating_files",
        priority=PRIORITIES[spec.trainer.priority],
        attempts=0,
        failures=0,
        step=0,
        events_written=0,
    )
    session.add(row)
    session.flush()
    add_event(session, row, f"Created fine-tuning job: {row.id}", code="job.created")
    settle_files(session, row, unfit)
    session.flush()
    session.refresh(row)
    return row


def spec_of(row: JobRow) -> JobSpec:
    """The resolved spec of a job."""
    return JobSpec.parse(row.spec)


def get_job(session: Session, project_id: str, job_id: str) -> JobRow:
    """Raises NotFound, for a job of another project as well."""
    return _one(session, select(JobRow), project_id, job_id)


def locked_job(session: Session, project_id: str, job_id: str) -> JobRow:
    """The same, with its row locked to the end of the transaction."""
    return _one(session, select(JobRow).with_for_update(), project_id, job_id)


def list_jobs(
    session: Session,
    project_id: str,
    *,
    tags: dict[str, str] | None,
    after: str | None,
    limit: int,
) -> Page[JobRow]:
    """One page of a project's jobs, newest first. ``tags`` must all match; an empty dict: no tags."""
    query = select(JobRow).where(JobRow.project_id == project_id)
    if tags is not None:
        query = query.where(JobRow.tags.contains(tags) if tags else JobRow.tags == {})
    return page_of(session, query, JobRow.id, JobRow.position, after=after, limit=limit)


def settle_files(session: Session, job: JobRow, unfit: FileCheck) -> None:
    """Move a job on that waits for its files: queued if all are good, failed if one is not."""
    spec = spec_of(job)
    for param in ("training_file", "validation_file"):
        file_id = getattr(spec, param)
        if file_id is None:
            continue
        file = session.get(FileRow, file_id)
        problem = _file_problem(file, param, file_id)
        if problem is None and file is not None and file.status == "processed":
            problem = unfit(spec, param, file.report or {})
        if problem is not None:
            return fail_job(session, job, problem)
        assert file is not None
        if file.status == "uploaded":
            return None
    job.status = "queued"
    job.phase = "waiting_for_worker"
    add_event(session, job, "Files validated; job queued", code="job.queued")
    return None


def jobs_waiting_for_files(session: Session, file_id: str | None = None) -> Sequence[JobRow]:
    """Locked rows of the jobs that wait for their files, or for one file."""
    query = select(JobRow).where(JobRow.status == "validating_files").order_by(JobRow.position)
    if file_id is not None:
        query = query.where(
            (JobRow.spec["training_file"].as_string() == file_id)
            | (JobRow.spec["validation_file"].as_string() == file_id)
        )
    return session.scalars(query.with_for_update(skip_locked=file_id is None)).all()


def count_by_status(session: Session) -> dict[str, int]:
    """How many jobs there are in each status, over all projects."""
    counts = dict.fromkeys(JOB_STATUSES, 0)
    query = select(JobRow.status, func.count()).group_by(JobRow.status)
    for status, count in session.execute(query):
        counts[status] = count
    return counts


def fail_job(session: Session, job: JobRow, error: JobError) -> None:
    """End a job as failed, with its reason."""
    job.error = error.model_dump(mode="json")
    end_job(session, job, "failed", error.message, code=error.code, level="error")


def park_job(session: Session, job: JobRow) -> None:
    """Pause a job: nobody holds it, and nobody takes it before it is resumed."""
    _let_go(job)
    job.status = "paused"
    job.pause_requested_at = None
    add_event(session, job, "Job paused", code="job.paused")
    tell_webhooks(session, job, "fine_tuning.job.paused")


def end_job(session: Session, job: JobRow, status: str, message: str, **event: Any) -> None:
    """The one way into a terminal status: no lease survives it, and webhooks are told of it."""
    _let_go(job)
    job.status = status
    job.finished_at = func.now()
    add_event(session, job, message, **event)
    tell_webhooks(session, job, f"fine_tuning.job.{status}")


def _let_go(job: JobRow) -> None:
    job.phase = None
    job.lease_token = None
    job.lease_expires_at = None
    job.estimated_finish = None
    job.not_before = None


def _one(session: Session, query: Select[JobRow], project_id: str, job_id: str) -> JobRow:
    row = session.scalar(query.where(JobRow.id == job_id, JobRow.project_id == project_id))
    if row is None:
        raise NotFound("fine-tuning job", job_id)
    return row


def _file_problem(file: FileRow | None, param: str, file_id: str) -> JobError | None:
    code = f"invalid_{param}"
    if file is None:
        return JobError(
            code=code,
            param=param,
            message=f"{param} '{file_id}' was deleted before the job could read it",
            hint="upload the file again and create a new job",
        )
    if file.status == "error":
        return JobError(
            code=code, param=param, message=f"{param} '{file_id}' is invalid: {file.status_details}"
        )
    return None

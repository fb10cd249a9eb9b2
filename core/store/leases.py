"""Who holds a job. Every write of a worker carries its lease token.

A claim is one guarded UPDATE, so of two workers that hear the same ring one gets the job. The token fences:
a worker that lost its lease finds no row with its token and can change nothing. Time is the database's,
so no two machines' clocks are ever compared.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, case, func, select, update
from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.spec.job import JobSpec
from core.spec.tree import SpecError
from core.store.devices import with_devices
from core.store.errors import LeaseLost
from core.store.events import add_event
from core.store.ids import new_id
from core.store.jobs import fail_job
from core.store.tables import AttemptRow, JobRow, ProjectRow

Wish = Literal["pause", "cancel"]
"""What a user wants of a job that runs; of the two a cancel outranks a pause."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write to one job, until it expires or somebody takes over.

    ``spec``: the job's, on the devices that this attempt has.
    """

    job_id: str
    token: str
    attempt: int
    project_id: str
    spec: JobSpec


def claim_job(
    session: Session,
    job_id: str,
    *,
    worker: str,
    lease_s: float,
    device: str | None = None,
    devices: int | None = None,
) -> Lease | None:
    """The job, if it is queued and still ours to take; None if somebody has it or it is gone.

    ``devices``: the most that the worker gives; a job that asked for more has these, and says so.
    A job whose spec this version cannot read fails, and says so.
    """
    token = new_id("lease_")
    claimed = session.scalar(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status == "queued")
        .values(
            status="running",
            phase="loading_model",
            lease_token=token,
            lease_expires_at=from_now(lease_s),
            not_before=None,
            attempts=JobRow.attempts + 1,
            started_at=func.coalesce(JobRow.started_at, func.now()),
        )
        .returning(JobRow)
    )
    if claimed is None:
        return None
    try:
        spec = JobSpec.parse(claimed.spec)
    except SpecError as error:
        fail_job(session, claimed, _unreadable(error))
        return None
    lease = Lease(job_id, token, claimed.attempts, claimed.project_id, with_devices(spec, devices))
    given = lease.spec.trainer.parallel.devices
    _tell_start(session, claimed, worker, device, given)
    if given < spec.trainer.parallel.devices:
        _tell_fewer(session, claimed, worker, spec.trainer.parallel.devices, given)
    return lease


def renew_lease(session: Session, lease: Lease, *, lease_s: float) -> Wish | None:
    """Hold on for another ``lease_s`` seconds; returns what the user wants by now.

    Raises LeaseLost.
    """
    wish = case(
        (JobRow.cancel_requested_at.is_not(None), "cancel"),
        (JobRow.pause_requested_at.is_not(None), "pause"),
    )
    found = session.execute(
        update(JobRow)
        .where(*_held(lease))
        .values(lease_expires_at=from_now(lease_s))
        .returning(wish)
    ).one_or_none()
    if found is None:
        raise _lost(lease)
    return found[0]  # type: ignore[no-any-return]


def wish_of(row: JobRow) -> Wish | None:
    """What the user wants of a job by its row."""
    if row.cancel_requested_at is not None:
        return "cancel"
    return None if row.pause_requested_at is None else "pause"


def held_job(session: Session, lease: Lease) -> JobRow:
    """The job's row, locked. Raises LeaseLost."""
    row = session.scalar(
        select(JobRow)
        .where(*_held(lease))
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    if row is None:
        raise _lost(lease)
    return row


def held_attempts(session: Session, job_ids: Collection[str]) -> dict[str, int | None]:
    """By id, of those jobs that there are: the number of the attempt that holds it, None if none does."""
    held = case((JobRow.status == "running", JobRow.attempts))
    query = select(JobRow.id, held).where(JobRow.id.in_(job_ids))
    return {row[0]: row[1] for row in session.execute(query)}


def from_now(seconds: float) -> ColumnElement[Any]:
    """The database's clock, so many seconds ahead."""
    return func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _tell_start(
    session: Session, job: JobRow, worker: str, device: str | None, devices: int
) -> None:
    session.add(
        AttemptRow(
            job_id=job.id,
            number=job.attempts,
            worker=worker,
            device=device,
            devices=devices,
            lines_followed=0,
        )
    )
    served = update(ProjectRow).where(ProjectRow.id == job.project_id)
    session.execute(served.values(served_at=func.clock_timestamp()))
    add_event(
        session,
        job,
        f"Fine-tuning job started (attempt {job.attempts})",
        code="job.started",
        data={"attempt": job.attempts, "worker": worker, "devices": devices},
    )


def _tell_fewer(session: Session, job: JobRow, worker: str, asked: int, given: int) -> None:
    add_event(
        session,
        job,
        f"The job asked for {asked} devices; no worker has as many any more, so it goes on with {given}. "
        "Its results are the same up to rounding, and it takes longer",
        code="job.fewer_devices",
        level="warn",
        data={"attempt": job.attempts, "worker": worker, "asked": asked, "devices": given},
    )


def _held(lease: Lease) -> tuple[ColumnElement[bool], ...]:
    return (
        JobRow.id == lease.job_id,
        JobRow.status == "running",
        JobRow.lease_token == lease.token,
    )


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(f"the lease of attempt {lease.attempt} on job {lease.job_id} is gone")


def _unreadable(error: SpecError) -> JobError:
    return JobError(
        code="spec_not_readable",
        message=f"this version of Castalia cannot read the job's spec: {error}",
        fault="platform",
        hint="run it on workers of the version that took the job, or submit it again",
    )

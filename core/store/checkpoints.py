"""Checkpoints of a job. A row appears when all of its files are stored, in one transaction with them."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from core.store.blobs import Blob
from core.store.deliveries import tell_webhooks
from core.store.events import add_event
from core.store.files import CHECKPOINT_PURPOSE
from core.store.ids import new_id
from core.store.leases import Lease, held_job
from core.store.paging import Page, page_of
from core.store.tables import CheckpointRow, FileRow, JobRow


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a checkpoint whose bytes are stored: its path below the checkpoint, and its role."""

    path: str
    kind: str
    blob: Blob


def add_checkpoint(
    session: Session,
    lease: Lease,
    *,
    step: int,
    metrics: dict[str, float],
    files: Sequence[StoredFile],
) -> str:
    """Make a stored checkpoint visible and return its id. Raises LeaseLost, then nothing is visible.

    A step that is saved again by a later attempt replaces the former; the result is bit-equal anyway.
    """
    job = held_job(session, lease)
    job.failures = 0
    session.execute(
        delete(CheckpointRow).where(CheckpointRow.job_id == job.id, CheckpointRow.step == step)
    )
    row = CheckpointRow(id=new_id("ftckpt_"), job_id=job.id, step=step, metrics=metrics)
    session.add(row)
    session.flush()
    session.add_all(_file_row(job, row, file) for file in files)
    add_event(
        session,
        job,
        f"Checkpoint created at step {step}",
        code="checkpoint.saved",
        data={"step": step, "checkpoint": row.id},
    )
    tell_webhooks(session, job, "fine_tuning.job.checkpoint_saved", checkpoint_id=row.id)
    session.flush()
    return row.id


def list_checkpoints(
    session: Session, job: JobRow, *, after: str | None, limit: int
) -> Page[CheckpointRow]:
    """One page of a job's checkpoints, newest first."""
    query = select(CheckpointRow).where(CheckpointRow.job_id == job.id)
    return page_of(
        session, query, CheckpointRow.id, CheckpointRow.position, after=after, limit=limit
    )


def checkpoints_of(session: Session, job_id: str) -> Sequence[CheckpointRow]:
    """All of a job's checkpoints, those with the most steps first."""
    query = select(CheckpointRow).where(CheckpointRow.job_id == job_id)
    return session.scalars(query.order_by(CheckpointRow.step.desc())).all()


def checkpoint_files(session: Session, checkpoint_ids: Sequence[str]) -> dict[str, list[FileRow]]:
    """The files of each checkpoint, by path."""
    found: dict[str, list[FileRow]] = {id: [] for id in checkpoint_ids}
    query = (
        select(FileRow).where(FileRow.checkpoint_id.in_(checkpoint_ids)).order_by(FileRow.filename)
    )
    for row in session.scalars(query):
        assert row.checkpoint_id is not None
        found[row.checkpoint_id].append(row)
    return found


def drop_old_checkpoints(
    session: Session, lease: Lease, keep_last: int, best_step: int | None = None
) -> list[str]:
    """Forget all but the last ``keep_last`` checkpoints and that of ``best_step``.

    Returns blobs to delete after the commit.
    """
    held_job(session, lease)
    steps = session.execute(
        select(CheckpointRow.step, CheckpointRow.id)
        .where(CheckpointRow.job_id == lease.job_id)
        .order_by(CheckpointRow.step.desc())
        .offset(keep_last)
    )
    old = [checkpoint_id for step, checkpoint_id in steps if step != best_step]
    blobs = list(session.scalars(select(FileRow.blob_id).where(FileRow.checkpoint_id.in_(old))))
    session.execute(delete(CheckpointRow).where(CheckpointRow.id.in_(old)))
    return blobs


def _file_row(job: JobRow, checkpoint: CheckpointRow, file: StoredFile) -> FileRow:
    return FileRow(
        id=new_id("file-"),
        project_id=job.project_id,
        purpose=CHECKPOINT_PURPOSE,
        filename=file.path,
        status="processed",
        blob_id=file.blob.id,
        bytes=file.blob.bytes,
        sha256=file.blob.sha256,
        checkpoint_id=checkpoint.id,
        kind=file.kind,
    )

"""Files of a project: what a user uploaded and what her jobs made."""

from typing import Any

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from core.store.blobs import Blob
from core.store.errors import NotFound
from core.store.ids import new_id
from core.store.paging import Order, Page, page_of
from core.store.tables import BlobRow, FileRow, PartRow

TRAINING_PURPOSE = "fine-tune"
CHECKPOINT_PURPOSE = "checkpoint"
LOG_PURPOSE = "fine-tune-log"
RESULTS_PURPOSE = "fine-tune-results"


def add_file(
    session: Session,
    project_id: str,
    *,
    filename: str,
    purpose: str,
    blob: Blob,
    lifetime_s: int | None = None,
) -> FileRow:
    """An uploaded file. A training file waits for `prepare`; any other is ready as it is.

    After ``lifetime_s`` it is not there any more; None: it stays.
    """
    row = FileRow(
        id=new_id("file-"),
        project_id=project_id,
        filename=filename,
        purpose=purpose,
        status="uploaded" if purpose == TRAINING_PURPOSE else "processed",
        blob_id=blob.id,
        bytes=blob.bytes,
        sha256=blob.sha256,
        expires_at=None if lifetime_s is None else _after_creation(lifetime_s),
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def get_file(session: Session, project_id: str, file_id: str) -> FileRow:
    """Raises NotFound, for a file of another project as well, and for one that has expired."""
    query = select(FileRow).where(FileRow.id == file_id, FileRow.project_id == project_id)
    row = session.scalar(query.where(_still_there()))
    if row is None:
        raise NotFound("file", file_id)
    return row


def list_files(
    session: Session,
    project_id: str,
    *,
    purpose: str | None,
    after: str | None,
    limit: int,
    order: Order,
) -> Page[FileRow]:
    """One page of a project's files."""
    query = select(FileRow).where(FileRow.project_id == project_id, _still_there())
    if purpose is not None:
        query = query.where(FileRow.purpose == purpose)
    return page_of(
        session, query, FileRow.id, FileRow.position, after=after, limit=limit, order=order
    )


def remove_file(session: Session, project_id: str, file_id: str) -> str:
    """Forget a file; returns the id of its blob, to be deleted after the commit."""
    row = get_file(session, project_id, file_id)
    session.execute(delete(FileRow).where(FileRow.id == row.id))
    return row.blob_id


def expire_files(session: Session) -> list[str]:
    """Forget the files whose time is over; returns blobs to delete after the commit."""
    late = delete(FileRow).where(~_still_there()).returning(FileRow.blob_id)
    return list(session.scalars(late))


def find_unprepared(session: Session, file_id: str) -> FileRow | None:
    """The file if it still waits for `prepare`."""
    return session.scalar(
        select(FileRow).where(FileRow.id == file_id, FileRow.status == "uploaded")
    )


def unprepared_files(session: Session) -> list[str]:
    """Ids of files that wait for `prepare`, oldest first."""
    query = select(FileRow.id).where(FileRow.status == "uploaded").order_by(FileRow.position)
    return list(session.scalars(query))


def set_prepared(
    session: Session, file_id: str, *, ok: bool, details: str | None, report: dict[str, Any]
) -> None:
    """What `prepare` found. Only the first answer counts; a deleted file takes none."""
    session.execute(
        update(FileRow)
        .where(FileRow.id == file_id, FileRow.status == "uploaded")
        .values(status="processed" if ok else "error", status_details=details, report=report)
    )


def is_named(session: Session, blob_id: str) -> bool:
    """Whether a file holds these bytes."""
    return bool(session.scalar(select(exists().where(FileRow.blob_id == blob_id))))


def orphaned_blobs(session: Session, older_than_s: float) -> list[str]:
    """Blobs that no file and no part names: left behind by a process that died between blob and file."""
    age = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, older_than_s)
    named = exists().where(FileRow.blob_id == BlobRow.id)
    part = exists().where(PartRow.blob_id == BlobRow.id)
    return list(session.scalars(select(BlobRow.id).where(BlobRow.created_at < age, ~named, ~part)))


def _after_creation(seconds: int) -> ColumnElement[Any]:
    """So long after the transaction's time, which is what a row is created at."""
    return func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)


def _still_there() -> ColumnElement[bool]:
    return or_(FileRow.expires_at.is_(None), FileRow.expires_at > func.clock_timestamp())

"""Files that arrive in parts: begun, filled, and completed as one file, or given up.

Parts are whole blobs. Completing writes the file's blob from theirs outside of any transaction, then makes
the file and forgets the parts in one; so an upload is complete once, however often that is asked for.
"""

from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.store.blobs import Blob
from core.store.errors import Conflict, NotFound
from core.store.files import add_file
from core.store.ids import new_id
from core.store.leases import from_now
from core.store.quotas import UNLIMITED, Quotas, admit_bytes
from core.store.tables import FileRow, PartRow, UploadRow

STATE_CODE = "invalid_upload_state"


def create_upload(
    session: Session,
    project_id: str,
    *,
    filename: str,
    purpose: str,
    bytes: int,
    lifetime_s: float,
    file_lifetime_s: int | None = None,
    quotas: Quotas = UNLIMITED,
) -> UploadRow:
    """An upload of so many bytes, to be completed in ``lifetime_s``; its file stays ``file_lifetime_s``.

    Raises QuotaExceeded.
    """
    admit_bytes(session, project_id, bytes, quotas)
    row = UploadRow(
        id=new_id("upload_"),
        project_id=project_id,
        filename=filename,
        purpose=purpose,
        bytes=bytes,
        status="pending",
        expires_at=from_now(lifetime_s),
        file_lifetime_s=file_lifetime_s,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def get_upload(session: Session, project_id: str, upload_id: str) -> UploadRow:
    """The upload, its row locked. Raises NotFound, for an upload of another project as well."""
    query = select(UploadRow).where(UploadRow.id == upload_id, UploadRow.project_id == project_id)
    row = session.scalar(query.with_for_update())
    if row is None:
        raise NotFound("upload", upload_id)
    return row


def add_part(
    session: Session,
    project_id: str,
    upload_id: str,
    blob: Blob,
    quotas: Quotas = UNLIMITED,
) -> PartRow:
    """Stored bytes become a part; it is parts that count against a quota, not what was announced.

    Raises NotFound, Conflict if the upload takes none any more, and QuotaExceeded.
    """
    upload = get_upload(session, project_id, upload_id)
    require_pending(session, upload)
    admit_bytes(session, project_id, blob.bytes, quotas)
    row = PartRow(id=new_id("part_"), upload_id=upload.id, blob_id=blob.id, bytes=blob.bytes)
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def parts_of(session: Session, upload: UploadRow) -> dict[str, PartRow]:
    """The parts that have come, by id."""
    rows = session.scalars(select(PartRow).where(PartRow.upload_id == upload.id))
    return {row.id: row for row in rows}


def complete_upload(session: Session, upload: UploadRow, blob: Blob) -> tuple[FileRow, list[str]]:
    """The stored whole becomes a file; also returns the blobs of parts, to be deleted after the commit.

    Raises Conflict if the upload was completed or given up meanwhile.
    """
    locked = get_upload(session, upload.project_id, upload.id)
    require_pending(session, locked)
    file = add_file(
        session,
        locked.project_id,
        filename=locked.filename,
        purpose=locked.purpose,
        blob=blob,
        lifetime_s=locked.file_lifetime_s,
    )
    locked.status, locked.file_id = "completed", file.id
    return file, _forget_parts(session, [locked.id])


def cancel_upload(session: Session, project_id: str, upload_id: str) -> tuple[UploadRow, list[str]]:
    """Give an upload up; also returns blobs to delete. Raises NotFound, and Conflict if it is complete."""
    upload = get_upload(session, project_id, upload_id)
    if upload.status == "completed":
        raise Conflict(f"upload '{upload_id}' is complete; delete its file instead", STATE_CODE)
    upload.status = "cancelled"
    session.flush()
    return upload, _forget_parts(session, [upload.id])


def expire_uploads(session: Session) -> list[str]:
    """Give up what was not completed in time; returns blobs to delete."""
    late = select(UploadRow).where(
        UploadRow.status == "pending", UploadRow.expires_at < func.clock_timestamp()
    )
    rows = session.scalars(late.with_for_update(skip_locked=True)).all()
    for row in rows:
        row.status = "expired"
    session.flush()
    return _forget_parts(session, [row.id for row in rows])


def require_pending(session: Session, upload: UploadRow) -> None:
    """Raises Conflict unless the upload still takes parts."""
    if upload.status != "pending":
        raise Conflict(f"upload '{upload.id}' is {upload.status}; begin a new one", STATE_CODE)
    now = session.scalar(select(func.clock_timestamp()))
    if now is not None and upload.expires_at < now:
        raise Conflict(f"upload '{upload.id}' has expired; begin a new one", STATE_CODE)


def _forget_parts(session: Session, upload_ids: Sequence[str]) -> list[str]:
    query = delete(PartRow).where(PartRow.upload_id.in_(upload_ids)).returning(PartRow.blob_id)
    return list(session.scalars(query))

"""/v1/uploads: large files in parts, so that a cut connection costs one part and not the whole."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Path, UploadFile

from api.agreement import invalid
from api.auth import SubmitDep
from api.incoming import checked_name, checked_purpose, chunks_of
from api.requests import CompleteUpload, CreateUpload
from api.service import Service, ServiceDep
from api.views.upload import PartView, UploadView
from core.spec.bell import PREPARE_TASK
from core.store.files import get_file
from core.store.quotas import admit_bytes
from core.store.tables import FileRow, PartRow, UploadRow
from core.store.uploads import (
    add_part,
    cancel_upload,
    complete_upload,
    create_upload,
    get_upload,
    parts_of,
    require_pending,
)

router = APIRouter(prefix="/uploads", tags=["Uploads"])

UploadId = Annotated[str, Path()]


@router.post("")
def create(service: ServiceDep, principal: SubmitDep, body: CreateUpload) -> UploadView:
    """Begin an upload. Its parts may come in any order; completing it gives the order."""
    limit = service.settings.max_upload_bytes
    if body.bytes > limit:
        raise invalid("bytes", f"{body.bytes} is beyond the limit of {limit}; split the file")
    with service.database.begin() as session:
        row = create_upload(
            session,
            principal.project_id,
            filename=checked_name(body.filename),
            purpose=checked_purpose(body.purpose),
            bytes=body.bytes,
            lifetime_s=service.settings.upload_lifetime_s,
            quotas=service.settings.quotas,
            file_lifetime_s=None if body.expires_after is None else body.expires_after.seconds,
        )
    return UploadView.of(row)


@router.post("/{upload_id}/parts")
def add(
    service: ServiceDep, principal: SubmitDep, upload_id: UploadId, data: UploadFile
) -> PartView:
    """Add a part."""
    quotas = service.settings.quotas
    with service.database.begin() as session:
        require_pending(session, get_upload(session, principal.project_id, upload_id))
        admit_bytes(session, principal.project_id, data.size or 0, quotas)
    blob = service.blobs.write(chunks_of(data.file))
    try:
        with service.database.begin() as session:
            row = add_part(session, principal.project_id, upload_id, blob, quotas)
    except BaseException:
        service.blobs.delete(blob.id)
        raise
    return PartView.of(row)


@router.post("/{upload_id}/complete")
def complete(
    service: ServiceDep, principal: SubmitDep, upload_id: UploadId, body: CompleteUpload
) -> UploadView:
    """Make one file of the parts, in the order given. Asked again, it answers with the same file."""
    with service.database.begin() as session:
        upload = get_upload(session, principal.project_id, upload_id)
        if upload.file_id is not None:
            return UploadView.of(upload, get_file(session, principal.project_id, upload.file_id))
        require_pending(session, upload)
        parts = _chosen(upload, parts_of(session, upload), body.part_ids)
    file = _joined(service, upload, parts, body.md5)
    with service.database.begin() as session:
        upload = get_upload(session, principal.project_id, upload_id)
    if file.status == "uploaded":
        service.doorbell.ring(PREPARE_TASK, file.id)
    return UploadView.of(upload, file)


@router.post("/{upload_id}/cancel")
def cancel(service: ServiceDep, principal: SubmitDep, upload_id: UploadId) -> UploadView:
    """Give an upload up; its parts are deleted."""
    with service.database.begin() as session:
        row, blobs = cancel_upload(session, principal.project_id, upload_id)
    _delete(service, blobs)
    return UploadView.of(row)


def _chosen(upload: UploadRow, have: dict[str, PartRow], ids: Sequence[str]) -> list[PartRow]:
    chosen: dict[str, PartRow] = {}
    for number, part_id in enumerate(ids):
        if part_id not in have:
            raise invalid(f"part_ids[{number}]", f"'{part_id}' is no part of '{upload.id}'")
        if part_id in chosen:
            raise invalid(f"part_ids[{number}]", f"'{part_id}' is named twice")
        chosen[part_id] = have[part_id]
    total = sum(part.bytes for part in chosen.values())
    if total != upload.bytes:
        message = f"are {total} bytes together, but the upload was begun with {upload.bytes}"
        raise invalid("part_ids", f"{message}; send what is missing, or begin anew")
    return list(chosen.values())


def _joined(
    service: Service, upload: UploadRow, parts: Sequence[PartRow], md5: str | None
) -> FileRow:
    seen = hashlib.md5(usedforsecurity=False)

    def content() -> Iterator[bytes]:
        for part in parts:
            for chunk in service.blobs.read(part.blob_id):
                seen.update(chunk)
                yield chunk

    blob = service.blobs.write(content())
    try:
        _check_md5(md5, seen.hexdigest())
        with service.database.begin() as session:
            file, leftover = complete_upload(session, upload, blob)
    except BaseException:
        service.blobs.delete(blob.id)
        raise
    _delete(service, leftover)
    return file


def _check_md5(said: str | None, found: str) -> None:
    if said is not None and said.lower() != found:
        raise invalid("md5", f"'{said}' is not that of the parts, {found}")


def _delete(service: Service, blob_ids: Sequence[str]) -> None:
    for blob_id in blob_ids:
        service.blobs.delete(blob_id)

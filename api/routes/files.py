"""/v1/files: upload, list, read, download, delete."""

from typing import Annotated, Literal

from fastapi import APIRouter, Form, Header, Query, Request, UploadFile
from fastapi.responses import Response, StreamingResponse

from api.auth import ReadDep, SubmitDep
from api.errors import ApiError
from api.hygiene import disposition
from api.incoming import PURPOSES, checked_lifetime, checked_name, checked_purpose, chunks_of
from api.outgoing import read_ahead
from api.ranges import asked_span
from api.service import ServiceDep
from api.views.file import FileView
from api.views.shape import DeletedView, ListView, list_of
from core.data.file_check import unfit_file
from core.spec.bell import PREPARE_TASK
from core.store.files import TRAINING_PURPOSE, add_file, get_file, list_files, remove_file
from core.store.jobs import jobs_waiting_for_files, settle_files
from core.store.quotas import admit_bytes

router = APIRouter(prefix="/files", tags=["Files"])

BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@router.post("")
def create(
    service: ServiceDep,
    principal: SubmitDep,
    file: UploadFile,
    purpose: Annotated[str, Form(json_schema_extra={"enum": list(PURPOSES)})],
    anchor: Annotated[str | None, Form(alias="expires_after[anchor]")] = None,
    seconds: Annotated[int | None, Form(alias="expires_after[seconds]")] = None,
) -> FileView:
    """Keep a file. A training file is then checked line by line; poll its status."""
    lifetime_s = checked_lifetime(anchor, seconds)
    purpose, filename = checked_purpose(purpose), checked_name(file.filename)
    if purpose == TRAINING_PURPOSE and file.size == 0:
        raise _invalid("file", f"'{filename}' is empty; send one JSON object a line", "empty_file")
    quotas = service.settings.quotas
    with service.database.begin() as session:
        admit_bytes(session, principal.project_id, file.size or 0, quotas)
    blob = service.blobs.write(chunks_of(file.file))
    try:
        with service.database.begin() as session:
            # Again, since others may have stored something while this was written.
            admit_bytes(session, principal.project_id, blob.bytes, quotas)
            row = add_file(
                session,
                principal.project_id,
                filename=filename,
                purpose=purpose,
                blob=blob,
                lifetime_s=lifetime_s,
            )
    except BaseException:
        service.blobs.delete(blob.id)
        raise
    if row.status == "uploaded":
        service.doorbell.ring(PREPARE_TASK, row.id)
    return FileView.of(row)


@router.get("")
def list_(
    service: ServiceDep,
    principal: ReadDep,
    purpose: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
) -> ListView[FileView]:
    """The project's files."""
    with service.database.begin() as session:
        page = list_files(
            session, principal.project_id, purpose=purpose, after=after, limit=limit, order=order
        )
    return list_of([FileView.of(row) for row in page.rows], page.has_more)


@router.get("/{file_id}")
def retrieve(service: ServiceDep, principal: ReadDep, file_id: str) -> FileView:
    """One file."""
    with service.database.begin() as session:
        return FileView.of(get_file(session, principal.project_id, file_id))


@router.delete("/{file_id}")
def delete(service: ServiceDep, principal: SubmitDep, file_id: str) -> DeletedView:
    """Forget a file and its bytes. A job that has not read it yet fails and says so."""
    with service.database.begin() as session:
        if get_file(session, principal.project_id, file_id).checkpoint_id is not None:
            raise _invalid(
                "file_id", f"'{file_id}' is a part of a checkpoint, which would be broken"
            )
        blob_id = remove_file(session, principal.project_id, file_id)
        for job in jobs_waiting_for_files(session, file_id):
            settle_files(session, job, unfit_file)
    service.blobs.delete(blob_id)
    return DeletedView(id=file_id, object="file")


@router.head("/{file_id}/content", include_in_schema=False)
@router.get(
    "/{file_id}/content",
    response_class=StreamingResponse,
    responses={
        200: {"content": BYTES},
        206: {"content": BYTES, "description": "The range that was asked for."},
        416: {},
    },
)
def content(
    service: ServiceDep,
    principal: ReadDep,
    request: Request,
    file_id: str,
    range_: Annotated[str | None, Header(alias="range")] = None,
    if_range: Annotated[str | None, Header()] = None,
) -> Response:
    """The bytes, whole or one range; the ETag is their SHA-256."""
    with service.database.begin() as session:
        row = get_file(session, principal.project_id, file_id)
    etag = f'"{row.sha256}"'
    if request.method == "HEAD":
        range_ = None  # RFC 9110, 14.2: ranges are defined for GET alone
    span = asked_span(range_, if_range, etag, row.bytes)
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": disposition(row.filename),
        "content-length": str(span.stop - span.start),
        "etag": etag,
    }
    if not span.whole:
        headers["content-range"] = span.content_range
    status = 200 if span.whole else 206
    if request.method == "HEAD":
        return Response(None, status, headers, media_type="application/octet-stream")
    body = read_ahead(service.blobs.read(row.blob_id, span.start, span.stop))
    return StreamingResponse(body, status, headers, media_type="application/octet-stream")


def _invalid(param: str, message: str, code: str = "invalid_value") -> ApiError:
    return ApiError(400, f"Invalid '{param}': {message}", code=code, param=param)

"""Files and uploads."""

import hashlib
from typing import Any

from case import LIMIT_S, POLL_S, Case, refused
from openai import BadRequestError, NotFoundError

HOUR = {"anchor": "created_at", "seconds": 3600}
MIME = "application/jsonl"


def create(case: Case) -> None:
    path = case.rows("chat")
    file = case.client.files.create(file=path, purpose="fine-tune")
    assert (file.object, file.purpose) == ("file", "fine-tune")
    assert (file.filename, file.bytes) == (path.name, path.stat().st_size)
    found = case.client.files.retrieve(file.id)
    assert (found.id, found.created_at) == (file.id, file.created_at)


def pages(case: Case) -> None:
    made = [_small(case).id for _ in range(3)]
    listed = [file.id for file in case.client.files.list(purpose="user_data", limit=1)]
    assert [id for id in listed if id in made] == made[::-1]
    assert len(case.client.files.list(purpose="user_data", limit=1).data) == 1


def content(case: Case) -> None:
    file = case.client.files.create(file=case.rows("chat"), purpose="fine-tune")
    expected = case.rows("chat").read_bytes()
    assert case.client.files.content(file.id).read() == expected
    with case.client.files.with_streaming_response.content(file.id) as answer:
        assert b"".join(answer.iter_bytes(100)) == expected


def delete(case: Case) -> None:
    file = _small(case)
    deleted = case.client.files.delete(file.id)
    assert (deleted.id, deleted.object, deleted.deleted) == (file.id, "file", True)
    refused(NotFoundError, lambda: case.client.files.retrieve(file.id))


def wait_for_processing(case: Case) -> None:
    for shape, status in (("chat", "processed"), ("broken", "error")):
        file = case.client.files.create(file=case.rows(shape), purpose="fine-tune")
        found = case.client.files.wait_for_processing(
            file.id, poll_interval=POLL_S, max_wait_seconds=LIMIT_S
        )
        assert found.status == status
        assert bool(found.status_details) == (status == "error")


def expires_after(case: Case) -> None:
    file = _small(case, expires_after=HOUR)
    assert file.expires_at == file.created_at + 3600
    upload = case.client.uploads.create(**_asked(1), expires_after=HOUR)
    part = case.client.uploads.parts.create(upload.id, data=b"x")
    joined = case.client.uploads.complete(upload.id, part_ids=[part.id]).file
    assert joined.expires_at == joined.created_at + 3600


def chunked(case: Case) -> None:
    path = case.rows("chat")
    md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    upload = case.client.uploads.upload_file_chunked(
        file=path, mime_type=MIME, purpose="fine-tune", part_size=500, md5=md5
    )
    assert upload.status == "completed"
    assert case.client.files.content(upload.file.id).read() == path.read_bytes()


def md5_mismatch(case: Case) -> None:
    error = refused(
        BadRequestError,
        lambda: case.client.uploads.upload_file_chunked(
            file=case.rows("chat"), mime_type=MIME, purpose="fine-tune", part_size=500, md5="0" * 32
        ),
    )
    assert error.param == "md5"


def cancelled_upload(case: Case) -> None:
    upload = case.client.uploads.create(**_asked(1))
    assert case.client.uploads.cancel(upload.id).status == "cancelled"
    refused(BadRequestError, lambda: case.client.uploads.parts.create(upload.id, data=b"x"))


def _small(case: Case, **more: Any) -> Any:
    return case.client.files.create(file=("a.txt", b"a"), purpose="user_data", **more)


def _asked(size: int) -> dict[str, Any]:
    return {"bytes": size, "filename": "a.txt", "mime_type": MIME, "purpose": "user_data"}


ITEMS = {
    "files.create": create,
    "files.pages": pages,
    "files.content": content,
    "files.delete": delete,
    "files.wait_for_processing": wait_for_processing,
    "files.expires_after": expires_after,
    "uploads.chunked": chunked,
    "uploads.md5_mismatch": md5_mismatch,
    "uploads.cancel": cancelled_upload,
}

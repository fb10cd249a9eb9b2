"""A body beyond the limit is refused, whether it tells its length or not, and nothing is kept."""

from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from core.store.tables import BlobRow

JOBS, FILES = "/v1/fine_tuning/jobs", "/v1/files"
JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=x"}
HEAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
TAIL = b'\r\n--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n--x--\r\n'


def chunked(size: int, head: bytes = b"", tail: bytes = b"") -> Iterator[bytes]:
    yield head
    for _ in range(size // 1000):
        yield b"x" * 1000
    yield tail


def blobs_kept(database) -> int:
    with database.begin() as session:
        return session.scalar(select(func.count()).select_from(BlobRow))


@pytest.mark.parametrize(
    ("path", "headers", "content"),
    [
        (JOBS, JSON, b"x" * 150_000),
        (JOBS, JSON, chunked(150_000)),
        (JOBS, FORM, b"x" * 150_000),
        (JOBS, FORM, chunked(150_000)),
        (FILES, JSON, b"x" * 150_000),
        (FILES, FORM, HEAD + b"x" * 600_000 + TAIL),
        (FILES, FORM, chunked(600_000, HEAD, TAIL)),
    ],
    ids=["job", "job-chunked", "form", "form-chunked", "no-form", "file", "file-chunked"],
)
def test_a_body_beyond_the_limit_is_refused(client, database, path, headers, content):
    kept = blobs_kept(database)
    answer = client.post(path, content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-request-id"]
    assert blobs_kept(database) == kept


@pytest.mark.parametrize(
    "content", [HEAD + b"x" * 499_000 + TAIL, chunked(499_000, HEAD, TAIL)], ids=["told", "chunked"]
)
def test_an_upload_within_the_limit_is_kept(client, content):
    answer = client.post(FILES, content=content, headers=FORM)
    assert (answer.status_code, answer.json()["bytes"]) == (200, 499_000)


def test_a_job_within_the_limit_is_read(client, body):
    filler = {"metadata": {str(n): "x" * 512 for n in range(16)}}
    assert client.post(JOBS, json={**body, **filler}).status_code == 200

"""Uploads in parts through the stock client: one file in the end, or nothing."""

import hashlib
import secrets

import pytest
from openai import BadRequestError, NotFoundError
from sqlalchemy import text

from core.store.uploads import expire_uploads

CONTENT = b'{"text": "' + b"a" * 5000 + b'"}\n'


@pytest.fixture
def begin(openai):
    def create(size=None, **fields):
        asked = {"filename": "rows.jsonl", "purpose": "fine-tune", "mime_type": "text/plain"}
        return openai.uploads.create(**{**asked, "bytes": size or len(CONTENT), **fields})

    return create


@pytest.fixture
def send(openai):
    return lambda upload, data: openai.uploads.parts.create(upload.id, data=data).id


@pytest.fixture
def complete(openai):
    return lambda upload, ids, **more: openai.uploads.complete(upload.id, part_ids=ids, **more)


@pytest.mark.parametrize("md5", [False, True])
def test_the_stock_client_sends_a_file_in_parts(openai, tmp_path, md5):
    path, content = tmp_path / "rows.jsonl", CONTENT + secrets.token_hex(8).encode()
    path.write_bytes(content)
    more = {"md5": hashlib.md5(content, usedforsecurity=False).hexdigest()} if md5 else {}
    upload = openai.uploads.upload_file_chunked(
        file=path, mime_type="text/plain", purpose="fine-tune", part_size=1000, **more
    )
    assert (upload.status, upload.file.filename, upload.file.status) == (
        "completed",
        "rows.jsonl",
        "uploaded",
    )
    assert openai.files.content(upload.file.id).content == content


def test_parts_are_joined_in_the_order_that_completing_gives(openai, begin, send, complete):
    upload = begin()
    last, first = send(upload, CONTENT[2000:]), send(upload, CONTENT[:2000])
    file_id = complete(upload, [first, last]).file.id
    assert openai.files.content(file_id).content == CONTENT


def test_completing_again_answers_with_the_same_file(begin, send, complete):
    upload = begin()
    parts = [send(upload, CONTENT)]
    assert complete(upload, parts).file.id == complete(upload, parts).file.id


@pytest.mark.parametrize(
    ("ids", "more", "param"),
    [
        ([0], {}, "part_ids"),
        ([0, 0], {}, "part_ids[1]"),
        ([0, 2], {}, "part_ids[1]"),
        ([0, 1], {"md5": "0" * 32}, "md5"),
        ([0, 1], {"md5": "x"}, "md5"),
    ],
)
def test_what_does_not_make_the_file_is_refused_and_the_upload_goes_on(
    begin, send, complete, ids, more, param
):
    upload = begin()
    parts = [send(upload, CONTENT[:7]), send(upload, CONTENT[7:])]
    with pytest.raises(BadRequestError) as refused:
        complete(upload, [[*parts, "part_none"][number] for number in ids], **more)
    assert refused.value.param == param
    assert complete(upload, parts).status == "completed"


@pytest.mark.parametrize("field", ["bytes", "purpose"])
def test_an_upload_that_cannot_be_is_refused_at_once(begin, field):
    with pytest.raises(BadRequestError) as refused:
        begin(**{"bytes": {"size": 10**12}, "purpose": {"purpose": "vision"}}[field])
    assert refused.value.param == field


def test_a_cancelled_upload_takes_nothing_and_keeps_nothing(
    openai, begin, send, complete, database
):
    upload = begin()
    part = send(upload, CONTENT)
    assert openai.uploads.cancel(upload.id).status == "cancelled"
    for use in (lambda: send(upload, b"x"), lambda: complete(upload, [part])):
        with pytest.raises(BadRequestError, match="begin a new one") as refused:
            use()
        assert refused.value.code == "invalid_upload_state"
    with database.begin() as session:
        query = text("select count(*) from upload_parts where upload_id = :id")
        assert session.scalar(query, {"id": upload.id}) == 0


def test_an_upload_that_is_late_is_given_up(begin, send, database):
    upload = begin()
    send(upload, CONTENT)
    with database.begin() as session:
        late = text("update uploads set expires_at = now() - interval '1 s' where id = :id")
        session.execute(late, {"id": upload.id})
    with pytest.raises(BadRequestError, match="expired"):
        send(upload, b"x")
    with database.begin() as session:
        assert len(expire_uploads(session)) == 1


def test_another_project_finds_no_such_upload(stranger, openai, begin, send):
    upload = begin()
    part = send(upload, CONTENT)
    path = f"/v1/uploads/{upload.id}"
    assert stranger.post(f"{path}/parts", files={"data": b"x"}).status_code == 404
    assert stranger.post(f"{path}/complete", json={"part_ids": [part]}).status_code == 404
    assert stranger.post(f"{path}/cancel").status_code == 404
    with pytest.raises(NotFoundError):
        openai.uploads.cancel("upload_none")

"""Files through the stock client: uploaded, listed, read, downloaded, deleted."""

import hashlib
import re
from urllib.parse import unquote

import pytest
from openai import NotFoundError
from sqlalchemy import select

from core.store.tables import BlobPieceRow, BlobRow, FileRow

ROWS = b'{"messages": []}\n' * 50


@pytest.fixture
def upload(openai):
    def do(content: bytes = ROWS, name: str = "t.jsonl", purpose: str = "fine-tune"):
        return openai.files.create(file=(name, content), purpose=purpose)

    return do


def test_a_training_file_is_kept_and_waits_for_its_check(openai, upload):
    file = upload()
    assert (file.object, file.bytes, file.filename) == ("file", len(ROWS), "t.jsonl")
    assert (file.purpose, file.status) == ("fine-tune", "uploaded")
    assert file.sha256 == hashlib.sha256(ROWS).hexdigest()
    assert openai.files.retrieve(file.id) == file


def test_a_file_of_another_purpose_is_ready_at_once(upload):
    assert upload(purpose="user_data").status == "processed"


@pytest.mark.parametrize("content", [b"\x00\xff\r\n--boundary", "ü".encode() * 9000])
def test_the_content_comes_back_as_it_was(openai, upload, content):
    file = upload(content)
    assert openai.files.content(file.id).read() == content


@pytest.mark.parametrize("name", ["ü 漢字.jsonl", 'a"b;c.jsonl', "../../etc/passwd"])
def test_a_name_is_kept_and_is_no_header(client, upload, name):
    file = upload(name=name)
    disposition = client.get(f"/v1/files/{file.id}/content").headers["content-disposition"]
    plain, _, extended = disposition.partition("; filename*=UTF-8''")
    assert re.fullmatch(r'attachment; filename="[\w. -]+"', plain, re.ASCII)
    assert unquote(extended) == file.filename
    assert not set('";\\/ ') & set(extended)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a\r\nx-evil: 1.jsonl", "ax-evil: 1.jsonl"),
        ("\x00\x1b\u2028", "upload"),
        ("n" * 300 + ".jsonl", "n" * 249 + ".jsonl"),
    ],
)
def test_a_name_is_one_line_of_a_bearable_length(client, sent, kept):
    body = {"filename": sent, "purpose": "fine-tune", "bytes": 1, "mime_type": "x"}
    assert client.post("/v1/uploads", json=body).json()["filename"] == kept


def test_files_are_listed_newest_first_or_oldest_first(openai, upload):
    made = [upload().id for _ in range(3)]
    upload(purpose="user_data")
    listed = [file.id for file in openai.files.list(purpose="fine-tune")]
    assert listed == made[::-1]
    assert [f.id for f in openai.files.list(purpose="fine-tune", order="asc", limit=1)] == made


def test_a_deleted_file_and_its_bytes_are_gone(openai, upload, database):
    file = upload()
    with database.begin() as session:
        blob = session.scalar(select(FileRow.blob_id).where(FileRow.id == file.id))
    assert openai.files.delete(file.id).deleted is True
    for use in (openai.files.retrieve, openai.files.content, openai.files.delete):
        with pytest.raises(NotFoundError) as error:
            use(file.id)
        assert (error.value.code, error.value.type) == ("not_found", "invalid_request_error")
    with database.begin() as session:
        assert session.get(BlobRow, blob) is None
        assert session.scalars(select(BlobPieceRow).where(BlobPieceRow.blob_id == blob)).all() == []


def test_deleting_a_file_fails_the_job_that_waits_for_it(openai, upload):
    file = upload()
    job = openai.fine_tuning.jobs.create(model="tiny", training_file=file.id)
    assert job.status == "validating_files"
    openai.files.delete(file.id)
    job = openai.fine_tuning.jobs.retrieve(job.id)
    assert (job.status, job.error.code) == ("failed", "invalid_training_file")


def test_files_of_another_project_do_not_exist(stranger, upload):
    file = upload()
    for method, path in [
        ("GET", f"/v1/files/{file.id}"),
        ("GET", f"/v1/files/{file.id}/content"),
        ("HEAD", f"/v1/files/{file.id}/content"),
        ("DELETE", f"/v1/files/{file.id}"),
        ("GET", f"/v1/files?after={file.id}"),
    ]:
        assert stranger.request(method, path).status_code == 404
    assert stranger.get("/v1/files").json()["data"] == []

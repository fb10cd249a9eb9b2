"""A file that was given a time is there for so long, and then neither read nor listed nor kept."""

import pytest
from openai import BadRequestError, NotFoundError
from sqlalchemy import func, update

from core.store.files import expire_files
from core.store.tables import FileRow

HOUR = {"anchor": "created_at", "seconds": 3600}


@pytest.fixture
def upload(openai):
    def do(**fields):
        return openai.files.create(file=("t.jsonl", b"x"), purpose="user_data", **fields)

    return do


@pytest.fixture
def let_pass(database):
    def do(file) -> None:
        with database.begin() as session:
            of_file = update(FileRow).where(FileRow.id == file.id)
            session.execute(of_file.values(expires_at=func.now()))

    return do


def test_a_file_tells_when_it_expires(upload):
    file = upload(expires_after=HOUR)
    assert file.expires_at - file.created_at == 3600
    assert upload().expires_at is None


def test_an_expired_file_is_not_there(openai, upload, let_pass):
    stays, goes = upload(expires_after=HOUR), upload(expires_after=HOUR)
    let_pass(goes)
    assert [file.id for file in openai.files.list()] == [stays.id]
    for use in (openai.files.retrieve, openai.files.content, openai.files.delete):
        with pytest.raises(NotFoundError):
            use(goes.id)


def test_only_expired_files_are_swept_with_their_bytes(database, upload, let_pass):
    stays, goes = upload(expires_after=HOUR), upload(expires_after=HOUR)
    upload()
    with database.begin() as session:
        blob = session.get_one(FileRow, goes.id).blob_id
    let_pass(goes)
    with database.begin() as session:
        assert blob in expire_files(session)
        assert session.get(FileRow, goes.id) is None
        assert session.get(FileRow, stays.id) is not None


def test_the_file_of_an_upload_expires_from_its_completion(openai):
    asked = {"filename": "t.jsonl", "purpose": "user_data", "mime_type": "text/plain", "bytes": 1}
    upload = openai.uploads.create(**asked, expires_after=HOUR)
    part = openai.uploads.parts.create(upload.id, data=b"x")
    file = openai.uploads.complete(upload.id, part_ids=[part.id]).file
    assert file.expires_at - file.created_at == 3600


@pytest.mark.parametrize("seconds", [0, 3599, 2_592_001])
def test_a_time_out_of_bounds_is_refused(openai, upload, seconds):
    for use in (upload, _upload_in_parts(openai)):
        with pytest.raises(BadRequestError) as refused:
            use(expires_after={"anchor": "created_at", "seconds": seconds})
        assert refused.value.param.startswith("expires_after")


def _upload_in_parts(openai):
    def do(**fields):
        return openai.uploads.create(
            filename="t", purpose="user_data", mime_type="text/plain", bytes=1, **fields
        )

    return do

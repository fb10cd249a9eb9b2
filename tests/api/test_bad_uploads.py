"""An upload that cannot be used is refused with the field that is wrong, and nothing is kept."""

import pytest
from sqlalchemy import func, select, text

from core.store.tables import BlobRow

FILE = {"file": ("t.jsonl", b"{}\n")}
FORM = {"content-type": "multipart/form-data; boundary=x"}
PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc'


@pytest.fixture
def refused(client, database):
    """The error of an upload that must be refused and must leave nothing."""

    def post(**request):
        before = _count(database)
        answer = client.post("/v1/files", **request)
        assert answer.status_code == 400, answer.text
        assert _count(database) == before
        return answer.json()["error"]

    return post


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"data": {"purpose": "fine-tune"}}, "file"),
        ({"files": FILE}, "purpose"),
        ({"files": FILE, "data": {"purpose": "training"}}, "purpose"),
        ({"files": FILE, "data": {"purpose": ""}}, "purpose"),
        ({"files": FILE, "data": {"purpose": "fine-tune\x00"}}, "purpose"),
        ({"data": {"purpose": "fine-tune", "file": "a text"}}, "file"),
        ({"files": {"data": b"x"}, "data": {"purpose": "fine-tune"}}, "file"),
        ({"json": {"purpose": "fine-tune", "file": "x"}}, "file"),
        (
            {"files": FILE, "data": {"purpose": "evals", "expires_after[anchor]": "created_at"}},
            "expires_after[seconds]",
        ),
        (
            {"files": FILE, "data": {"purpose": "evals", "expires_after[seconds]": "3600"}},
            "expires_after[anchor]",
        ),
    ],
)
def test_the_wrong_field_is_named(refused, request_, param):
    assert refused(**request_)["param"] == param


def test_an_empty_training_file_is_refused(refused):
    error = refused(files={"file": ("t.jsonl", b"")}, data={"purpose": "fine-tune"})
    assert (error["code"], error["param"]) == ("empty_file", "file")


# The parser neither lists nor closes a part without an end; the file goes with the garbage.
@pytest.mark.filterwarnings("ignore:Unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("content", [b"", PART, PART + b"\r\n--x\r\n", b"\x00" * 100])
def test_a_form_without_its_end_is_refused(refused, content):
    refused(content=content, headers=FORM)


def test_a_form_without_a_boundary_is_refused(refused):
    error = refused(content=PART, headers={"content-type": "multipart/form-data"})
    assert "boundary" in error["message"]


def test_an_empty_file_of_another_purpose_may_be_kept(client):
    answer = client.post("/v1/files", files={"file": b""}, data={"purpose": "user_data"})
    assert (answer.status_code, answer.json()["bytes"]) == (200, 0)
    content = client.get(f"/v1/files/{answer.json()['id']}/content")
    assert (content.status_code, content.content) == (200, b"")


def test_bytes_whose_file_cannot_be_written_are_taken_away(client, database):
    with database.begin() as session:
        session.execute(text("alter table files add constraint luck check (filename <> '13')"))
    before = _count(database)
    answer = client.post("/v1/files", files={"file": ("13", b"{}")}, data={"purpose": "fine-tune"})
    assert (answer.status_code, _count(database)) == (500, before)


def _count(database) -> int:
    with database.begin() as session:
        return session.scalar(select(func.count()).select_from(BlobRow))

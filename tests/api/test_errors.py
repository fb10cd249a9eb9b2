"""Every failure is the envelope, with an id by which it can be found in the log."""

from collections.abc import Iterator

import pytest
from fastapi import HTTPException
from fastapi.responses import StreamingResponse
from openai import NotFoundError
from starlette.testclient import TestClient

from api.app import create_app
from api.errors import ApiError, envelope

KEYS = {"message", "type", "param", "code"}


@pytest.fixture
def faulty(settings):
    """An application with a route that raises what it is told to."""
    app = create_app(settings)
    raised: list[Exception] = []

    @app.get("/boom")
    def boom() -> None:
        raise raised.pop()

    @app.get("/half")
    def half() -> StreamingResponse:
        def body() -> Iterator[bytes]:
            yield b"half"
            raise raised.pop()

        return StreamingResponse(body())

    with TestClient(app, raise_server_exceptions=False) as client:
        client.raised = raised
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/fine_tuning/jobs/ftjob-none", 404, "not_found"),
        ("PUT", "/v1/fine_tuning/jobs", 405, "method_not_allowed"),
        ("POST", "/v1/models/tiny", 405, "method_not_allowed"),
        ("PATCH", "/v1/files", 405, "method_not_allowed"),
        ("GET", "/v1/files/%00", 404, "not_found"),
        ("GET", "/v1/files/%ff%fe", 404, "not_found"),
        ("GET", "/v1/fine_tuning/jobs/%00", 404, "not_found"),
        ("DELETE", "/v1/files/%00", 404, "not_found"),
    ],
)
def test_what_is_not_there_is_the_envelope(client, method, path, status, code):
    answer = client.request(method, path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert error.keys() >= KEYS
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/nothing", "/v1/files/file-none"])
def test_every_answer_has_an_id_of_its_own(client, path):
    ids = {client.get(path).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(id.startswith("req_") for id in ids)


def test_the_stock_client_shows_the_id(openai):
    with pytest.raises(NotFoundError) as error:
        openai.files.retrieve("file-none")
    assert error.value.request_id.startswith("req_")


def test_a_fault_of_ours_is_a_500_with_an_id_and_no_secrets(faulty):
    faulty.raised.append(RuntimeError("password=hunter2"))
    answer = faulty.get("/boom")
    assert answer.status_code == 500
    assert answer.headers["x-request-id"].startswith("req_")
    assert answer.json()["error"].keys() == KEYS
    assert answer.json()["error"]["type"] == "server_error"
    assert "hunter2" not in answer.text


def test_a_fault_of_ours_is_counted(faulty):
    def count() -> str:
        lines = faulty.get("/metrics").text.splitlines()
        return [line for line in lines if 'route="/boom",status="500"' in line]

    faulty.raised.append(RuntimeError())
    faulty.get("/boom")
    assert count()


def test_a_fault_in_the_middle_of_an_answer_is_not_answered_again(faulty):
    faulty.raised.append(RuntimeError("cut"))
    with TestClient(faulty.app) as client, pytest.raises(RuntimeError, match="cut"):
        client.get("/half")


@pytest.mark.parametrize("error", [ApiError(409, "m", code="c"), HTTPException(409, "m")])
def test_a_conflict_is_never_tried_again(faulty, error):
    faulty.raised.append(error)
    answer = faulty.get("/boom")
    assert (answer.status_code, answer.headers["x-should-retry"]) == (409, "false")


def test_what_is_not_known_is_not_said():
    body = envelope(ApiError(400, "m", code="c")).body
    assert body == (
        b'{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"c"}}'
    )

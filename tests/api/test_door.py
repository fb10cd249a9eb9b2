"""Whose key it is is settled before a byte of a body is read."""

import asyncio

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.door import MOST_READ_BYTES
from castalia.ports import free_port

PATHS = ["/v1/files", "/v1/uploads/upload_x/parts", "/v1/fine_tuning/jobs", "/v1/nothing"]


@pytest.fixture
def unread(app):
    """Sends a request whose body cannot be read; the status and headers of the answer."""

    async def receive():
        raise AssertionError("the body was read")

    def do(path: str, **headers: str):
        answered = []

        async def send(message):
            answered.append(message)

        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": raw, "root_path": "", "scheme": "http",
            "server": ("x", 80), "client": ("x", 1), "http_version": "1.1",
        }  # fmt: skip
        asyncio.run(app(scope, receive, send))
        start = answered[0]
        return start["status"], {n.decode(): v.decode() for n, v in start["headers"]}

    return do


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", [None, "Bearer sk-castalia-wrong"])
def test_a_stranger_s_body_is_not_read(unread, path, key):
    given = {} if key is None else {"authorization": key}
    status, headers = unread(path, content_type="multipart/form-data; boundary=x", **given)
    assert (status, headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("told", "closed"),
    [
        ({"content_length": str(MOST_READ_BYTES)}, False),
        ({"content_length": str(MOST_READ_BYTES + 1)}, True),
        ({"content_length": "9" * 5000}, True),
        ({"transfer_encoding": "chunked"}, True),
        ({}, False),
    ],
)
def test_a_refused_body_is_dropped_if_it_is_short_and_hung_up_on_if_not(unread, told, closed):
    _, headers = unread("/v1/files", **told)
    assert (headers.get("connection") == "close") is closed


def test_what_is_not_there_is_told_to_those_with_a_key_alone(client):
    assert client.get("/v1/nothing").status_code == 404
    del client.headers["authorization"]
    assert client.get("/v1/nothing").status_code == 401


def test_a_door_without_its_database_asks_to_come_again(settings):
    url = f"postgresql://u:p@127.0.0.1:{free_port()}/d"
    app = create_app(settings.model_copy(update={"database_url": url}))
    with TestClient(app, headers={"authorization": "Bearer x"}) as client:
        answer = client.post("/v1/files", content=b"x")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_unavailable")
    assert answer.headers["x-should-retry"] == "true"

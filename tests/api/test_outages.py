"""A database or a broker that is away is told quickly and clearly, and costs no job."""

import socket
import time
from collections.abc import Iterator

import pytest
from openai import InternalServerError, OpenAI
from starlette.testclient import TestClient

from api.app import create_app
from castalia.ports import free_port
from core.store.queue import queued_jobs

QUICK_S = 5.0


@pytest.fixture
def without_database(settings) -> Iterator[TestClient]:
    url = f"postgresql://u:p@127.0.0.1:{free_port()}/d"
    app = create_app(settings.model_copy(update={"database_url": url}))
    with TestClient(app, headers={"authorization": "Bearer x"}) as client:
        yield client


@pytest.fixture(params=["closed", "silent"])
def without_broker(request, settings, open_client, project) -> Iterator[TestClient]:
    """A broker whose port is closed, or one that takes calls and never answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    if request.param == "closed":
        listening.close()
    url = f"redis://:x@127.0.0.1:{port}/0"
    app = create_app(settings.model_copy(update={"broker_url": url}))
    yield open_client(app, project)
    app.state.service.database.close()
    listening.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/files"),
        ("GET", "/v1/fine_tuning/jobs"),
        ("POST", "/v1/fine_tuning/jobs/ftjob-x/cancel"),
        ("GET", "/v1/models"),
    ],
)
def test_without_a_database_a_request_is_told_to_come_again(without_database, method, path):
    answer = without_database.request(method, path)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "database_unavailable")
    assert error["type"] == "server_error"
    assert int(answer.headers["retry-after"]) > 0
    assert "u:p" not in answer.text


def test_the_stock_client_reads_the_outage(without_database):
    client = OpenAI(
        api_key="x", base_url="http://x/v1", http_client=without_database, max_retries=0
    )
    with pytest.raises(InternalServerError) as error:
        client.models.list()
    assert (error.value.status_code, error.value.code) == (503, "database_unavailable")


def test_without_a_database_it_lives_but_is_not_ready(without_database):
    assert without_database.get("/healthz").json() == {"status": "ok"}
    answer = without_database.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unavailable", "database": "unavailable", "broker": "ok"}


def test_without_a_database_there_are_still_metrics(without_database):
    without_database.get("/v1/models")
    answer = without_database.get("/metrics")
    assert answer.status_code == 200
    assert 'castalia_http_requests_total{method="GET"' in answer.text
    assert "castalia_jobs{" not in answer.text


def test_without_a_broker_a_job_is_taken_at_once(without_broker, body, database):
    began = time.monotonic()
    answer = without_broker.post("/v1/fine_tuning/jobs", json=body)
    assert time.monotonic() - began < QUICK_S
    assert (answer.status_code, answer.json()["status"]) == (200, "queued")
    with database.begin() as session:
        assert answer.json()["id"] in queued_jobs(session)


def test_without_a_broker_a_file_is_taken_at_once(without_broker):
    began = time.monotonic()
    form = {"files": {"file": b"{}\n"}, "data": {"purpose": "fine-tune"}}
    answer = without_broker.post("/v1/files", **form)
    assert time.monotonic() - began < QUICK_S
    assert (answer.status_code, answer.json()["status"]) == (200, "uploaded")


def test_without_a_broker_it_is_ready_and_says_so(without_broker):
    began = time.monotonic()
    answer = without_broker.get("/readyz")
    assert time.monotonic() - began < QUICK_S
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok", "broker": "unavailable"}


def test_without_an_artifact_store_an_upload_is_told_to_come_again(
    settings, open_client, project, tmp_path
):
    (tmp_path / "store").write_text("where a folder should be")
    url = f"file://{tmp_path}/store"
    app = create_app(settings.model_copy(update={"artifacts_url": url}))
    client = open_client(app, project)
    answer = client.post("/v1/files", files={"file": ("t", b"{}\n")}, data={"purpose": "fine-tune"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "artifacts_unavailable")
    assert str(tmp_path) not in answer.text
    app.state.service.database.close()

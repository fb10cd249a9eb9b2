"""What whoever runs the service reads: readiness, metrics, and the description of the API."""

from starlette.testclient import TestClient

from api.app import create_app


def test_all_is_well(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ok", "database": "ok", "broker": "ok"},
    )


def test_a_database_without_its_schema_is_not_ready(settings, empty_database_url):
    app = create_app(settings.model_copy(update={"database_url": empty_database_url}))
    with TestClient(app) as client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["database"]) == (503, "needs migration")


def test_metrics_count_jobs_by_status(client, body):
    def queued() -> float:
        lines = client.get("/metrics").text.splitlines()
        (line,) = [line for line in lines if line.startswith('castalia_jobs{status="queued"}')]
        return float(line.split()[1])

    before = queued()
    client.post("/v1/fine_tuning/jobs", json=body)
    assert queued() == before + 1


def test_a_metric_bears_the_route_and_never_an_id(client):
    for _ in range(2):
        client.get("/v1/files/file-of-somebody")
        client.get("/v1/nothing-of-somebody")
    text = client.get("/metrics").text
    assert "of-somebody" not in text
    assert 'files/{file_id}"' in text
    assert 'route="unmatched"' in text


def test_every_answer_tells_its_time_and_version(client):
    headers = client.get("/v1/models").headers
    assert int(headers["openai-processing-ms"]) >= 0
    assert headers["openai-version"] == "2020-10-01"

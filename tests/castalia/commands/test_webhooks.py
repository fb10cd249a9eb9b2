"""`castalia webhooks` shows endpoints, and why an event has not arrived yet."""

from datetime import UTC, datetime

import pytest

from core.store.deliveries import claim_deliveries, disable_endpoint, not_delivered
from core.store.jobs import end_job, get_job
from core.store.webhooks import create_endpoint

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
FAILED = "fine_tuning.job.failed"


@pytest.fixture
def webhooks(castalia, service, secret):
    return lambda *words: castalia("webhooks", *words, URL=service.url, API_KEY=secret)


@pytest.fixture
def endpoint_id(database, project):
    with database.begin() as session:
        return create_endpoint(
            session, project, name="ci", url="https://ci.example/", event_types=[FAILED]
        )[0].id


@pytest.fixture
def failed_job(client, database, project, training_file):
    """A job that failed; its id."""
    job_id = client.post(
        "/fine_tuning/jobs", {"model": "toy", "training_file": training_file(prepared=False)}
    )["id"]
    with database.begin() as session:
        end_job(session, get_job(session, project, job_id), "failed", "m", code="c")
    return job_id


def test_endpoints_are_listed_with_whether_they_are_told_anything(webhooks, database, endpoint_id):
    assert webhooks("list").out.split() == [endpoint_id, "active", "ci", "https://ci.example/"]
    with database.begin() as session:
        disable_endpoint(session, endpoint_id, NOW, 410)
    assert "disabled" in webhooks("list").out


def test_a_delivery_that_failed_tells_why_and_when_it_is_tried_again(
    webhooks, endpoint_id, failed_job, database
):
    told = webhooks("deliveries", endpoint_id).out
    assert told.rstrip().endswith(f"{failed_job}  {FAILED}  pending, tried 0x")
    with database.begin() as session:
        [errand] = claim_deliveries(session, NOW, most=1, busy=(), held_s=1)
        not_delivered(session, errand, NOW, wait_s=5, status_code=None, problem="ConnectError")
    told = webhooks("deliveries", endpoint_id).out
    assert "pending, tried 1x, ConnectError, again 2026-11-30 12:00:05" in told


def test_an_endpoint_that_is_not_there_is_told_in_one_line(webhooks):
    said = webhooks("deliveries", "we_x")
    assert (said.code, said.err.count("\n")) == (1, 1)

"""Events in both orders, and as a stream that nobody has to begin anew."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from core.store.attempts import stop_attempt, succeed_job
from core.store.wishes import cancel_job


@pytest.fixture
def path(run_job, database):
    """Events of a job that has ended."""
    lease = run_job()
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=1)
    return f"/v1/fine_tuning/jobs/{lease.job_id}/events"


def parsed(text: str) -> list[dict[str, str]]:
    """The fields of each event of a stream; comments are left out."""
    blocks = [block.splitlines() for block in text.split("\n\n") if block.strip()]
    fields = [[line.split(": ", 1) for line in block if line[0] != ":"] for block in blocks]
    return [dict(block) for block in fields if block]


def test_ascending_pages_go_on_where_the_last_one_ended(client, path):
    newest_first = [event["id"] for event in client.get(path).json()["data"]]
    first = client.get(path, params={"order": "asc", "limit": 2}).json()
    rest = client.get(path, params={"order": "asc", "after": first["data"][-1]["id"]}).json()
    found = [event["id"] for event in first["data"] + rest["data"]]
    assert found == newest_first[::-1]
    assert (first["has_more"], rest["has_more"]) == (True, False)


@pytest.mark.parametrize("limit", [1, 1000])
def test_a_stream_tells_everything_once_and_ends_with_the_job(client, path, limit):
    answer = client.get(path, params={"stream": True, "limit": limit})
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = parsed(answer.text)
    assert [event["id"] for event in told] == [
        event["id"] for event in client.get(path, params={"order": "asc"}).json()["data"]
    ]
    assert json.loads(told[-1]["data"])["data"]["code"] == "job.succeeded"


def test_who_was_cut_off_goes_on_after_the_last_event_seen(client, path):
    told = parsed(client.get(path, params={"stream": True}).text)
    seen = {"last-event-id": told[1]["id"]}
    assert parsed(client.get(path, params={"stream": True}, headers=seen).text) == told[2:]


def test_who_has_seen_the_end_is_told_to_stop_asking(client, path):
    last = parsed(client.get(path, params={"stream": True}).text)[-1]["id"]
    answer = client.get(path, params={"stream": True}, headers={"last-event-id": last})
    assert (answer.status_code, answer.text) == (204, "")


def test_an_event_of_another_job_is_no_place_to_go_on_from(client, path, run_job):
    other = client.get(f"/v1/fine_tuning/jobs/{run_job().job_id}/events").json()["data"][0]["id"]
    answer = client.get(path, params={"stream": True, "after": other})
    assert answer.status_code == 404


def test_another_project_sees_nothing(stranger, path):
    assert stranger.get(path, params={"stream": True}).status_code == 404


def test_events_are_told_while_they_happen(serve, settings, client, run_job, database, project):
    lease, service = run_job(), serve(settings)
    url = f"{service.url}/v1/fine_tuning/jobs/{lease.job_id}/events?stream=true"
    headers = {"authorization": client.headers["authorization"]}
    told = []

    def listen() -> None:
        with httpx.stream("GET", url, headers=headers, timeout=30) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    told.append(json.loads(line[6:])["data"]["code"])
                if told and told[-1] == "job.started" and len(told) == before:
                    with database.begin() as session:
                        cancel_job(session, project, lease.job_id)
                        stop_attempt(session, lease, "r")
                    told.append("wish")

    before = len(client.get(f"/v1/fine_tuning/jobs/{lease.job_id}/events").json()["data"])
    with ThreadPoolExecutor(1) as pool:
        pool.submit(listen).result(timeout=60)
    assert told[before:] == ["wish", "job.cancel_requested", "job.cancelled"]

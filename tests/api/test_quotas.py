"""A quota that is used up is a 429 that says which, and whether it is of use to ask again."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from openai import RateLimitError

from core.store.quotas import set_quota
from core.store.tables import BlobRow


@pytest.fixture
def limit(database, project):
    def to(quota: str, most: int) -> None:
        with database.begin() as session:
            set_quota(session, project, quota, most)

    return to


def refused_by(answer, quota: str) -> dict:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (429, "quota_exceeded", quota)
    assert error["type"] == "rate_limit_error"
    assert "castalia projects quota" in error["hint"]
    return error


def test_a_job_too_many_is_refused_with_the_numbers(client, body, limit):
    limit("queued_jobs", 1)
    create = lambda: client.post("/v1/fine_tuning/jobs", json=body)  # noqa: E731 - one line
    assert create().status_code == 200
    answer = create()
    error = refused_by(answer, "queued_jobs")
    assert error["message"] == (
        "this project's quota of queued_jobs is 1: 1 are used, and this would add 1"
    )
    assert error["details"] == [{"quota": "queued_jobs", "limit": 1, "used": 1, "asked": 1}]
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers


def test_the_stock_client_does_not_ask_again_where_that_is_of_no_use(client, openai, body, limit):
    limit("queued_jobs", 0)
    asked = []
    client.event_hooks["request"].append(asked.append)
    with pytest.raises(RateLimitError) as refused:
        openai.with_options(max_retries=2).fine_tuning.jobs.create(**body)
    client.event_hooks["request"].clear()
    assert refused.value.body["details"][0]["limit"] == 0
    assert len(asked) == 1


def test_a_job_that_was_taken_is_found_again_though_the_quota_is_used_up(client, body, limit):
    limit("queued_jobs", 1)
    headers = {"idempotency-key": "k"}
    first, again = (
        client.post("/v1/fine_tuning/jobs", json=body, headers=headers) for _ in range(2)
    )
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


def test_a_day_that_is_used_up_says_when_the_next_begins(client, body, limit):
    limit("device_seconds", 0)
    answer = client.post("/v1/fine_tuning/jobs", json=body)
    refused_by(answer, "device_seconds")
    assert 0 < int(answer.headers["retry-after"]) <= 86_400


def test_a_file_too_large_for_what_is_left_is_refused_and_not_kept(client, database, limit):
    def send(size: int):
        files = {"file": ("f", b"x" * size)}
        return client.post("/v1/files", files=files, data={"purpose": "evals"})

    def blobs() -> int:
        with database.begin() as session:
            return session.query(BlobRow).count()

    limit("stored_bytes", 100)
    assert send(60).status_code == 200
    kept = blobs()
    assert refused_by(send(41), "stored_bytes")["details"][0]["asked"] == 41
    assert blobs() == kept
    assert send(40).status_code == 200


def test_an_upload_in_parts_counts_by_its_parts(client, limit):
    limit("stored_bytes", 100)
    asked = {"filename": "f", "purpose": "evals", "mime_type": "text/plain"}
    refused_by(client.post("/v1/uploads", json={**asked, "bytes": 101}), "stored_bytes")
    upload = client.post("/v1/uploads", json={**asked, "bytes": 100}).json()["id"]

    def part(size: int):
        return client.post(f"/v1/uploads/{upload}/parts", files={"data": b"x" * size})

    first = part(60).json()["id"]
    refused_by(part(41), "stored_bytes")
    parts = [first, part(40).json()["id"]]
    whole = client.post(f"/v1/uploads/{upload}/complete", json={"part_ids": parts})
    assert whole.json()["file"]["bytes"] == 100


def test_files_at_the_same_time_do_not_get_past_a_quota(client, limit):
    limit("stored_bytes", 30)

    def send(_: int) -> int:
        files = {"file": ("f", b"x" * 10)}
        return client.post("/v1/files", files=files, data={"purpose": "evals"}).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(12)))
    assert sorted(answers) == [200] * 3 + [429] * 9


def test_a_job_beyond_the_running_quota_is_taken_and_says_why_it_waits(client, body, limit):
    limit("running_jobs", 0)
    job = client.post("/v1/fine_tuning/jobs", json=body).json()
    assert (job["status"], job["queue"]["reason"]) == ("queued", "project_quota")
    assert "running_jobs is 0" in job["queue"]["message"]
    shown = client.get(f"/v1/fine_tuning/jobs/{job['id']}").json()
    assert shown["queue"]["reason"] == "project_quota"


def test_the_services_quotas_hold_where_a_project_has_none(make_app, open_client, project):
    client = open_client(make_app(quota_stored_bytes=10), project)
    answer = client.post("/v1/files", files={"file": b"x" * 11}, data={"purpose": "evals"})
    refused_by(answer, "stored_bytes")

"""The same request again makes no second job, whether it says so by a key or by being a retry."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from openai import BadRequestError
from sqlalchemy import text

from core.store.replays import forget_old_requests


@pytest.fixture
def create(client, body):
    def post(more=None, **headers):
        answer = client.post("/v1/fine_tuning/jobs", json={**body, **(more or {})}, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()["id"], answer.headers.get("idempotent-replayed")

    return post


def key(name: str) -> dict[str, str]:
    return {"idempotency-key": name}


def test_a_key_stands_for_one_job(create):
    first, new = create(**key("k1"))
    assert new is None
    assert create(**key("k1")) == (first, "true")
    assert create(**key("k2"))[0] != first


def test_a_key_is_its_owners_alone(create, stranger, body):
    create(**key("mine"))
    answer = stranger.post("/v1/fine_tuning/jobs", json=body, headers=key("mine"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "file_not_found")


def test_a_key_with_another_body_is_refused(openai, body):
    create = openai.fine_tuning.jobs.create
    create(**body, extra_headers=key("k"))
    with pytest.raises(BadRequestError, match="another body") as refused:
        create(**body, seed=1, extra_headers=key("k"))
    assert (refused.value.code, refused.value.param) == (
        "idempotency_key_reused",
        "Idempotency-Key",
    )


def test_a_retry_of_the_stock_client_finds_the_job_that_its_first_try_made(create):
    first, _ = create(**{"x-stainless-retry-count": "0"})
    assert create(**{"x-stainless-retry-count": "1"}) == (first, "true")
    assert create({"seed": 1}, **{"x-stainless-retry-count": "1"})[0] != first


def test_asking_twice_on_purpose_makes_two_jobs(create):
    assert create()[0] != create()[0]


def test_a_retry_long_afterwards_is_a_new_request(create, database):
    first, _ = create()
    with database.begin() as session:
        old = "update replays set created_at = now() - interval '11 minutes' where job_id = :id"
        session.execute(text(old), {"id": first})
    assert create(**{"x-stainless-retry-count": "2"})[0] != first


def test_requests_at_the_same_time_make_one_job(create):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: create(**key("same"))[0], range(16)))
    assert len(set(found)) == 1


def test_old_requests_are_forgotten(create, database):
    first, _ = create(**key("k"))
    with database.begin() as session:
        session.execute(text("update replays set created_at = now() - interval '25 hours'"))
        forget_old_requests(session)
    assert create(**key("k"))[0] != first

"""A key that asks too often waits; all API processes count together, and without a broker nobody counts."""

import time

import pytest

from api.errors import ApiError, envelope
from api.rates import LEFT_ALONE_S, Allowance, Rates
from castalia.ports import free_port

LIMIT = 3


@pytest.fixture
def slow(change_app, open_client, project):
    """A client of an application that grants three requests in a minute."""
    return open_client(change_app(requests_per_minute=LIMIT), project)


def test_every_answer_tells_what_is_left(slow):
    answers = [slow.get("/v1/models") for _ in range(LIMIT)]
    left = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
    assert left == ["2", "1", "0"]
    assert answers[0].headers["x-ratelimit-limit-requests"] == "3"
    reset = answers[-1].headers["x-ratelimit-reset-requests"]
    assert reset.endswith("ms")
    assert 50_000 < int(reset.removesuffix("ms")) <= 60_000


def test_one_request_too_many_is_told_when_to_come_again(slow):
    for _ in range(LIMIT):
        assert slow.get("/v1/files/file-x").status_code == 404
    answer = slow.post("/v1/fine_tuning/jobs", json={})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (429, "rate_limit_exceeded")
    assert error["type"] == "rate_limit_error"
    assert "CASTALIA_REQUESTS_PER_MINUTE" in error["hint"]
    assert 15_000 < int(answer.headers["retry-after-ms"]) <= 20_000
    assert answer.headers["retry-after"] == "20"
    assert answer.headers["x-ratelimit-remaining-requests"] == "0"
    assert "x-should-retry" not in answer.headers


def test_a_key_counts_in_all_processes_and_for_itself_alone(change_app, open_client, project):
    apps = [change_app(requests_per_minute=2) for _ in range(2)]
    one, other = open_client(apps[0], project), open_client(apps[0], project)
    same_elsewhere = open_client(apps[1], project)
    same_elsewhere.headers["authorization"] = one.headers["authorization"]
    statuses = [client.get("/v1/models").status_code for client in (one, same_elsewhere, one)]
    assert statuses == [200, 200, 429]
    assert other.get("/v1/models").status_code == 200


def test_a_bucket_fills_with_time(broker_url):
    rates = Rates(broker_url, 60_000)
    tokens = [rates.draw("key_fills").tokens for _ in range(100)]
    deadline = time.monotonic() + 10.0
    while rates.draw("key_fills").tokens < tokens[-1] - 1.0:  # each look takes one itself
        assert time.monotonic() < deadline
    assert tokens[-1] < 60_000
    rates.close()


def test_without_a_limit_or_a_broker_nothing_is_counted(broker_url):
    assert Rates(broker_url, 0).draw("key_x") is None
    away = Rates(f"redis://:x@127.0.0.1:{free_port()}/0", 1)
    began = time.monotonic()
    assert [away.draw("key_x") for _ in range(1000)] == [None] * 1000
    assert time.monotonic() - began < LEFT_ALONE_S


def test_uncounted_answers_bear_no_counts(change_app, open_client, project):
    answer = open_client(change_app(requests_per_minute=0), project).get("/v1/models")
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_a_wait_is_never_nothing():
    assert Allowance(60_000, 0.9999, granted=False).wait_ms == 1
    assert Allowance(60, 0.5, granted=False).wait_ms == 500


@pytest.mark.parametrize(
    ("status", "wait", "advice"),
    [
        (409, None, "false"),
        (429, "60", None),
        (429, "61", "false"),
        (429, None, None),
        (503, "2", "true"),
        (400, None, None),
        (500, None, None),
    ],
)
def test_the_client_is_told_where_its_own_rule_would_be_wrong(status, wait, advice):
    headers = {} if wait is None else {"retry-after": wait}
    answer = envelope(ApiError(status, "m", code="c", headers=headers))
    assert answer.headers.get("x-should-retry") == advice

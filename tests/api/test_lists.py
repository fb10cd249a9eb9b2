"""Lists page by themselves in the stock client, and filter by metadata."""

import pytest


@pytest.fixture
def make(openai, body):
    def do(metadata=None) -> str:
        return openai.fine_tuning.jobs.create(**body, metadata=metadata).id

    return do


def ids(page) -> list[str]:
    return [item.id for item in page]


def test_one_item_a_page_gives_every_job_once(openai, make):
    made = [make() for _ in range(4)]
    assert ids(openai.fine_tuning.jobs.list(limit=1)) == made[::-1]


def test_one_item_a_page_gives_every_event_in_order(openai, make):
    job_id = make()
    openai.fine_tuning.jobs.cancel(job_id)
    events = list(openai.fine_tuning.jobs.list_events(job_id, limit=1))
    assert [event.sequence for event in events] == [3, 2, 1]
    assert [event.data["code"] for event in events] == [
        "job.cancelled",
        "job.queued",
        "job.created",
    ]
    assert {(event.object, event.level, event.type) for event in events} == {
        ("fine_tuning.job.event", "info", "message")
    }


def test_a_page_says_whether_there_is_more(client, make):
    made = [make() for _ in range(3)]
    page = client.get("/v1/fine_tuning/jobs?limit=2").json()
    assert (page["object"], page["has_more"]) == ("list", True)
    assert (page["first_id"], page["last_id"]) == (made[2], made[1])
    rest = client.get(f"/v1/fine_tuning/jobs?limit=2&after={made[1]}").json()
    assert (len(rest["data"]), rest["has_more"]) == (1, False)


def test_an_empty_list_is_a_list(client):
    page = client.get("/v1/fine_tuning/jobs").json()
    assert page == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_metadata_filters_by_every_pair(openai, make):
    none, a = make(), make({"team": "a"})
    both, empty = make({"team": "a", "run": "1"}), make({"team": ""})
    jobs = openai.fine_tuning.jobs
    assert ids(jobs.list(metadata={"team": "a"})) == [both, a]
    assert ids(jobs.list(metadata={"team": "a", "run": "1"}, limit=1)) == [both]
    assert ids(jobs.list(metadata={"team": ""})) == [empty]
    assert ids(jobs.list(metadata={"team": "b"})) == []
    assert ids(jobs.list(extra_query={"metadata": "null"})) == [none]


@pytest.mark.parametrize("path", ["/v1/files", "/v1/fine_tuning/jobs"])
@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", "", "1e3"])
def test_a_limit_that_is_no_positive_number_is_refused(client, path, limit):
    answer = client.get(path, params={"limit": limit})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "limit")


def test_a_limit_beyond_the_largest_page_is_cut_to_it(client, make):
    make()
    answer = client.get("/v1/fine_tuning/jobs", params={"limit": 10**30})
    assert (answer.status_code, len(answer.json()["data"])) == (200, 1)


@pytest.mark.parametrize("path", ["/v1/files", "/v1/fine_tuning/jobs"])
@pytest.mark.parametrize("after", ["nothing", "", "\x00", "%"])
def test_an_item_that_is_not_in_the_list_cannot_be_listed_after(client, path, after):
    answer = client.get(path, params={"after": after})
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "after")

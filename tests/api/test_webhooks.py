"""The stock client manages webhooks; a secret is shown once, and foreign endpoints are not there."""

import pytest
from openai import BadRequestError, NotFoundError, RateLimitError

from api import webhook_requests
from core.spec.webhook import DEFAULT_TYPES, EVENT_TYPES

FAILED = "fine_tuning.job.failed"


@pytest.fixture
def create(openai, receiver):
    def do(name="n", event_types=(FAILED,), **fields):
        fields = {"url": receiver.url, **fields}
        return openai.webhooks.create(name=name, event_types=list(event_types), **fields)

    return do


def test_an_endpoint_is_made_read_and_deleted(openai, create, receiver):
    made = create()
    assert made.signing_secret.startswith("whsec_")
    read = openai.webhooks.retrieve(made.id)
    assert (read.name, read.url, read.event_types) == ("n", receiver.url, [FAILED])
    assert read.signing_secret_hint == f"whsec_…{made.signing_secret[-4:]}"
    assert made.signing_secret not in read.to_json()
    assert openai.webhooks.delete(made.id).deleted
    with pytest.raises(NotFoundError):
        openai.webhooks.retrieve(made.id)


def test_endpoints_are_listed_newest_first_in_pages(openai, create):
    made = [create().id for _ in range(3)]
    assert [listed.id for listed in openai.webhooks.list(limit=1)] == made[::-1]
    assert [listed.id for listed in openai.webhooks.list(after=made[1])] == made[:1]


def test_an_update_changes_what_it_names(openai, create, receiver):
    made = create()
    changed = openai.webhooks.update(made.id, name="m", event_types=list(DEFAULT_TYPES))
    assert (changed.name, changed.url) == ("m", receiver.url)
    assert changed.event_types == list(DEFAULT_TYPES)
    assert openai.webhooks.update(made.id).updated_at == changed.updated_at


def test_every_type_can_be_asked_for_and_openai_s_come_unasked(openai, client, receiver):
    listed = openai.webhooks.event_types.list().data
    assert listed == list(EVENT_TYPES)
    body = {"name": "n", "url": receiver.url}
    made = client.post("/v1/webhook_endpoints", json=body).json()
    assert made["event_types"] == list(DEFAULT_TYPES)
    made = client.post("/v1/webhook_endpoints", json={**body, "event_types": listed * 2}).json()
    assert made["event_types"] == listed


@pytest.mark.parametrize("event_type", DEFAULT_TYPES)
def test_a_try_is_really_signed_and_tells_the_answer(openai, create, receiver, event_type):
    made = create()
    receiver.answers.append((418, {}))
    tried = openai.webhooks.test(made.id, event_type=event_type)
    assert (tried.status_code, tried.event_type) == (418, event_type)
    [(headers, body)] = receiver.received
    event = openai.webhooks.unwrap(body, headers, secret=made.signing_secret)
    assert (event.type, event.id) == (event_type, headers["webhook-id"])


def test_both_secrets_sign_after_a_rotation_that_keeps_the_old(openai, create, receiver):
    made = create()
    kept = openai.webhooks.rotate_secret(made.id, keep_old_secret_active_for_24_hours=True)
    openai.webhooks.test(made.id, event_type=FAILED)
    headers, body = receiver.received[0]
    for secret in (made.signing_secret, kept.signing_secret):
        openai.webhooks.verify_signature(body, headers, secret=secret)
    assert openai.webhooks.retrieve(made.id).signing_secret_hint == kept.signing_secret_hint


def test_a_rotation_is_of_this_moment_unless_asked_otherwise(client, openai, create, receiver):
    made = create()
    answer = client.post(f"/v1/webhook_endpoints/{made.id}/rotate_secret")
    openai.webhooks.test(made.id, event_type=FAILED)
    [(headers, body)] = receiver.received
    assert " " not in headers["webhook-signature"]
    openai.webhooks.unwrap(body, headers, secret=answer.json()["signing_secret"])


def test_a_try_that_nobody_answers_is_told_with_its_reason(openai, create, receiver):
    made = create()
    receiver.close()
    with pytest.raises(BadRequestError, match="ConnectError") as refused:
        openai.webhooks.test(made.id, event_type=FAILED)
    assert (refused.value.code, refused.value.param) == ("webhook_not_delivered", "url")


def test_only_so_many_endpoints_are_looked_up_or_tried_at_once(openai, create):
    made = create()
    for _ in range(webhook_requests.AT_ONCE):
        webhook_requests._places.acquire()
    for ask in (create, lambda: openai.webhooks.test(made.id, event_type=FAILED)):
        with pytest.raises(RateLimitError) as refused:
            ask()
        assert refused.value.response.headers["retry-after"] == "2"
    webhook_requests._places.release(webhook_requests.AT_ONCE)
    assert openai.webhooks.test(made.id, event_type=FAILED).status_code == 200


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("url", "https://10.0.0.1/", "url"),
        ("url", "http://169.254.169.254/latest/meta-data", "url"),
        ("url", "https://[::ffff:127.0.0.1]/", "url"),
        ("url", "file:///etc/passwd", "url"),
        ("url", "https://u:p@127.0.0.1/", "url"),
        ("url", "", "url"),
        ("name", "", "name"),
        ("name", "\0", "name"),
        ("event_types", [], "event_types"),
        ("event_types", ["batch.completed"], "event_types[0]"),
        ("event_types", FAILED, "event_types"),
        ("secret", "whsec_mine", "secret"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    client, openai, create, receiver, field, value, param
):
    made = create()
    body = {"name": "n", "url": receiver.url, "event_types": [FAILED], field: value}
    for path in ("/v1/webhook_endpoints", f"/v1/webhook_endpoints/{made.id}"):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert [listed.url for listed in openai.webhooks.list()] == [receiver.url]


def test_nothing_of_an_endpoint_is_told_to_another_project(stranger, openai, create, receiver):
    path = f"/v1/webhook_endpoints/{create().id}"
    answers = [
        stranger.get(path),
        stranger.post(path, json={"name": "mine"}),
        stranger.delete(path),
        stranger.post(f"{path}/rotate_secret"),
        stranger.post(f"{path}/test", json={"event_type": FAILED}),
        stranger.get(f"{path}/deliveries"),
        stranger.get(f"/v1/webhook_endpoints?after={path.rpartition('/')[2]}"),
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert stranger.get("/v1/webhook_endpoints").json()["data"] == []
    assert receiver.received == []
    assert [listed.name for listed in openai.webhooks.list()] == ["n"]


def test_what_is_to_be_delivered_can_be_looked_at(client, openai, create, body):
    made = create(event_types=["fine_tuning.job.cancelled", "fine_tuning.job.paused"])
    jobs = [openai.fine_tuning.jobs.create(**body).id for _ in range(2)]
    client.post(f"/v1/fine_tuning/jobs/{jobs[0]}/pause")  # no status that the strict client knows
    openai.fine_tuning.jobs.cancel(jobs[1])
    path = f"/v1/webhook_endpoints/{made.id}/deliveries"
    listed = client.get(path).json()["data"]
    assert [delivery["type"] for delivery in listed] == made.event_types
    assert [delivery["data"]["id"] for delivery in listed] == jobs[::-1]
    assert {(d["status"], d["attempts"], d["finished_at"]) for d in listed} == {
        ("pending", 0, None)
    }
    first = client.get(path, params={"limit": 1}).json()
    assert first["has_more"]
    rest = client.get(path, params={"after": first["last_id"]}).json()
    assert [d["id"] for d in first["data"] + rest["data"]] == [d["id"] for d in listed]

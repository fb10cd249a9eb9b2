"""The stock client takes what is signed, with each secret that signs, and nothing else."""

import time

import pytest
from openai import InvalidWebhookSignatureError, OpenAI

from core.spec.webhook import DEFAULT_TYPES, EVENT_TYPES, WebhookEvent
from core.webhooks.signature import signed_headers

OLD, NEW, FOREIGN = (f"whsec_{letter * 43}=" for letter in "ABC")


@pytest.fixture
def client():
    with OpenAI(api_key="-") as client:
        yield client


def event(type="fine_tuning.job.succeeded"):
    return WebhookEvent("evt_1", type, 1_700_000_000, {"id": "ftjob-ü"})


@pytest.mark.parametrize("type", DEFAULT_TYPES)
def test_the_client_reads_openai_s_types_as_their_classes(client, type):
    sent = event(type)
    read = client.webhooks.unwrap(
        sent.body, signed_headers(sent, [NEW], int(time.time())), secret=NEW
    )
    assert read.model_dump() == {
        "id": "evt_1",
        "object": "event",
        "created_at": 1_700_000_000,
        "type": sent.type,
        "data": {"id": "ftjob-ü"},
    }


@pytest.mark.parametrize("type", EVENT_TYPES)
def test_the_type_is_told_whatever_class_the_client_makes_of_it(client, type):
    sent = event(type)
    headers = signed_headers(sent, [NEW], int(time.time()))
    assert client.webhooks.unwrap(sent.body, headers, secret=NEW).type == type


def test_each_secret_signs_while_one_takes_over_from_another(client):
    headers = signed_headers(event(), [NEW, OLD], int(time.time()))
    for secret in (NEW, OLD):
        client.webhooks.verify_signature(event().body, headers, secret=secret)
    with pytest.raises(InvalidWebhookSignatureError):
        client.webhooks.verify_signature(event().body, headers, secret=FOREIGN)


@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "body"])
def test_id_time_and_body_are_all_signed(client, part):
    headers, body = signed_headers(event(), [NEW], int(time.time())), event().body
    if part == "body":
        body = body.replace(b"succeeded", b"failed")
    else:
        headers[part] = headers[part][:-1] + ("0" if headers[part][-1] != "0" else "1")
    with pytest.raises(InvalidWebhookSignatureError):
        client.webhooks.verify_signature(body, headers, secret=NEW)

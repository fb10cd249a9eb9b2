"""A chat is refused clearly: where it is off, for what is not served, and where nobody answers."""

import pytest
from openai import (
    BadRequestError,
    InternalServerError,
    NotFoundError,
    OpenAI,
    PermissionDeniedError,
)
from redis import Redis

from core.spec.bell import CHAT_QUEUE
from core.store.attempts import succeed_job
from core.store.checkpoints import add_checkpoint
from core.store.ids import new_id
from core.store.keys import project_named
from core.store.models import find_own_model
from core.store.permissions import share_checkpoint

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def talk(make_app, open_client, project):
    """Asks the toy model through the stock client, of an application with these settings."""

    def make(**settings):
        client = open_client(make_app(chat=True, chat_limit_s=0.2, **settings), project)
        openai = OpenAI(
            api_key=client.headers["authorization"].removeprefix("Bearer "),
            base_url="http://testserver/v1",
            http_client=client,
            max_retries=0,
        )

        def ask(**fields):
            body = {"model": "toy", "messages": HELLO, **fields}
            return openai.chat.completions.create(**body)

        return ask

    return make


@pytest.fixture
def empty_queue(broker_url):
    with Redis.from_url(broker_url) as redis:
        redis.delete(CHAT_QUEUE)
        yield redis
        redis.delete(CHAT_QUEUE)


def test_it_is_off_until_it_is_turned_on_and_says_how(openai):
    with pytest.raises(PermissionDeniedError) as refused:
        openai.chat.completions.create(model="tiny", messages=HELLO)
    assert refused.value.code == "chat_not_enabled"
    assert "castalia worker --queue chat" in refused.value.body["hint"]


@pytest.mark.parametrize(
    "field",
    [
        {"tools": []},
        {"logprobs": True},
        {"frequency_penalty": 0.1},
        {"response_format": {"type": "json_object"}},
        {"n": 2},
        {"temperature": 3},
        {"top_p": 0},
        {"max_tokens": 0},
        {"stop": ["a", "b", "c", "d", "e"]},
    ],
)
def test_what_is_not_served_is_refused_by_its_name(talk, field):
    with pytest.raises(BadRequestError) as refused:
        talk()(**field)
    (name,) = field
    assert refused.value.param.split(".")[0] == name


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"max_tokens": 3, "max_completion_tokens": 4}, "differ"),
        ({"stream_options": {"include_usage": True}}, "set stream to true"),
        ({"messages": [*HELLO, {"role": "assistant", "content": "Hi"}]}, "assistant's already"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "pope", "content": "Hi"}]}, "role"),
    ],
)
def test_what_makes_no_sense_is_refused(talk, fields, word):
    with pytest.raises(BadRequestError, match=word):
        talk()(**fields)


@pytest.mark.parametrize("model", ["none", "ft:toy:org-castalia::none"])
def test_a_model_that_there_is_not_is_not_found(talk, model):
    with pytest.raises(NotFoundError) as missing:
        talk()(model=model)
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")


@pytest.mark.usefixtures("empty_queue")
@pytest.mark.parametrize("stream", [False, True])
def test_where_nobody_answers_it_is_given_up(talk, stream):
    with pytest.raises(InternalServerError) as given_up:
        talk()(stream=stream)
    assert (given_up.value.status_code, given_up.value.code) == (503, "chat_timed_out")
    assert given_up.value.response.headers["retry-after"] == "5"


def test_more_than_may_wait_are_refused_at_once(talk, empty_queue):
    empty_queue.rpush(CHAT_QUEUE, *["ring"] * 3)
    with pytest.raises(InternalServerError) as busy:
        talk(chat_queue=3)()
    assert (busy.value.status_code, busy.value.code) == (503, "chat_busy")
    assert empty_queue.llen(CHAT_QUEUE) == 3


def test_a_broker_that_is_away_is_told(talk):
    with pytest.raises(InternalServerError) as away:
        talk(broker_url="redis://127.0.0.1:1/0")()
    assert away.value.code == "broker_unavailable"


@pytest.mark.usefixtures("empty_queue")
def test_a_tuned_model_is_asked_for_by_whoever_may_use_it(
    make_app, open_client, project, run_job, database
):
    lease = run_job()
    with database.begin() as session:
        add_checkpoint(session, lease, step=1, metrics={}, files=[])
        succeed_job(session, lease, trained_tokens=1)
        other = project_named(session, new_id("project-")).id
    name = f"ft:tiny:org-castalia:s:{lease.job_id[6:14]}"
    stranger = open_client(make_app(chat=True, chat_limit_s=0.2), other)

    def answer():
        body = {"model": name, "messages": HELLO}
        return stranger.post("/v1/chat/completions", json=body).json()["error"]["code"]

    assert answer() == "model_not_found"
    with database.begin() as session:
        model = find_own_model(session, project, name)
        share_checkpoint(session, model, [other])
    assert answer() == "chat_timed_out"  # it may, and there is no worker

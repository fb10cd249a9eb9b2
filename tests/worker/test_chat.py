"""Whoever waits is answered by one model in memory; whoever does not wait any more costs nothing."""

import os
import signal
import threading
from dataclasses import replace

import pytest
from redis import Redis

from core.spec.chat import (
    Begun,
    ChatOrder,
    ChatTurn,
    Ended,
    Refused,
    Said,
    chat_reply,
    order_key,
    replies_key,
)
from worker import chat
from worker.chat import ChatDesk

TURN = ChatTurn(
    messages=[{"role": "user", "content": "Say it."}],
    temperature=1.0,
    top_p=1.0,
    max_tokens=8,
    stop=[],
    seed=3,
)


@pytest.fixture(scope="module")
def redis(broker_url):
    with Redis.from_url(broker_url) as redis:
        yield redis


@pytest.fixture
def desk(context, broker_url):
    settings = context.settings.model_copy(update={"broker_url": broker_url})
    desk = ChatDesk(replace(context, settings=settings))
    yield desk
    desk.close()


@pytest.fixture
def place(redis, project):
    def do(order_id, model="toy", **turn):
        order = ChatOrder(project_id=project, model=model, turn=TURN.model_copy(update=turn))
        redis.set(order_key(order_id), order.model_dump_json())
        return order_id

    return do


@pytest.fixture
def replies(redis):
    def read(order_id):
        return [chat_reply.validate_json(x) for x in redis.lrange(replies_key(order_id), 0, -1)]

    return read


def pid(desk):
    return desk._models._loaded[1]._process.pid


def test_an_order_is_answered_and_the_same_seed_answers_the_same(desk, place, replies):
    for order_id in ("a", "b"):
        desk.serve(place(order_id))
    first, *said, last = replies("a")
    assert isinstance(first, Begun)
    turn = ["<|im_start|>", *"user\nSay it.", "<|im_end|>", "\n"]
    assert first.prompt_tokens == len([*turn, "<|im_start|>", *"assistant\n"])
    assert all(isinstance(reply, Said) for reply in said)
    assert last == Ended(finish_reason="length", completion_tokens=8)
    assert replies("b") == replies("a")


def test_what_cannot_be_answered_is_refused_and_the_model_stays(desk, place, replies):
    desk.serve(place("fits"))
    loaded = pid(desk)
    desk.serve(place("long", max_tokens=510))
    (refused,) = replies("long")
    assert (refused.status, refused.code) == (400, "context_length_exceeded")
    desk.serve(place("none", model="ft:toy:org-castalia::none"))
    assert replies("none")[0].code == "model_not_found"
    desk.serve(place("again"))
    assert (pid(desk), replies("again")) == (loaded, replies("fits"))


def test_an_order_for_which_nobody_waits_is_not_begun(desk, replies):
    desk.serve("nobody")
    assert replies("nobody") == []
    assert desk._models._loaded is None


def test_an_answer_is_broken_off_when_nobody_waits_any_more(
    desk, place, replies, redis, until, monkeypatch
):
    monkeypatch.setattr(chat, "LOOK_EVERY_S", 0.01)
    desk.serve(place("warm"))
    loaded = pid(desk)
    serving = threading.Thread(target=desk.serve, args=(place("left", max_tokens=400),))
    serving.start()
    until(lambda: len(replies("left")) > 1)
    redis.delete(order_key("left"))
    serving.join()
    assert not isinstance(replies("left")[-1], Ended)
    desk.serve(place("next"))
    assert (pid(desk), replies("next")) == (loaded, replies("warm"))


def test_a_model_that_dies_costs_one_answer(desk, place, replies):
    desk.serve(place("before"))
    os.kill(pid(desk), signal.SIGKILL)
    desk._models._loaded[1]._process.wait()
    desk.serve(place("after"))
    assert replies("after") == replies("before")


def test_a_model_that_dies_while_it_answers_is_told(desk, place, replies, until):
    desk.serve(place("warm2"))
    serving = threading.Thread(target=desk.serve, args=(place("dying", max_tokens=400),))
    serving.start()
    until(lambda: len(replies("dying")) > 1)
    os.kill(pid(desk), signal.SIGKILL)
    serving.join()
    last = replies("dying")[-1]
    assert isinstance(last, Refused)
    assert (last.status, last.code) == (503, "model_lost")


def test_a_model_that_nobody_talks_to_leaves_the_memory(desk, place, replies, until):
    context = desk._models._context
    hasty = context.settings.model_copy(update={"chat_idle_s": 0.2})
    desk._models._context = replace(context, settings=hasty)
    desk.serve(place("short"))
    model = desk._models._loaded[1]
    until(lambda: not model.alive)
    desk.serve(place("later"))
    assert replies("later") == replies("short")

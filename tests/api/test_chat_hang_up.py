"""A client that hangs up lets its order go, whether its answer had begun or not."""

import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from redis import Redis

from core.spec.bell import CHAT_QUEUE
from core.spec.chat import Begun, Said, replies_key
from core.store.keys import create_key, new_secret, project_named

LIMIT_S = 30
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def redis(broker_url):
    with Redis.from_url(broker_url) as redis:
        redis.delete(CHAT_QUEUE)
        yield redis
        redis.delete(CHAT_QUEUE)


@pytest.fixture
def http(serve, settings, toy_models_dir, database):
    """Plain HTTP to a served API that lets models be talked to, and has no worker for it."""
    secret = new_secret()
    with database.begin() as session:
        create_key(session, project_named(session, "default"), "test", secret)
    service = serve(settings.model_copy(update={"chat": True, "models_dir": toy_models_dir}))
    headers = {"authorization": f"Bearer {secret}"}
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=LIMIT_S) as http:
        yield http


def until(condition):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return found


def orders(redis):
    return {key.decode().split(":")[2] for key in redis.keys("castalia:chat:*:order")}


def test_before_its_answer_begins(http, redis):
    before = orders(redis)
    body = {"model": "toy", "messages": HELLO}
    with pytest.raises(httpx.ReadTimeout):
        http.post("/chat/completions", json=body, timeout=httpx.Timeout(LIMIT_S, read=1.0))
    until(lambda: orders(redis) <= before)


def test_in_the_middle_of_its_answer(http, redis):
    before = orders(redis)
    body = {"model": "toy", "messages": HELLO, "stream": True}
    request = http.build_request("POST", "/chat/completions", json=body)
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(http.send, request, stream=True)
        (order_id,) = until(lambda: orders(redis) - before)
        # The test is the worker.
        for reply in (Begun(prompt_tokens=3), Said(text="Hel"), Said(text="lo")):
            redis.rpush(replies_key(order_id), reply.model_dump_json())
        answer = opening.result()
    lines = answer.iter_lines()
    until(lambda: "lo" in next(lines))
    assert order_id in orders(redis)
    answer.close()
    until(lambda: order_id not in orders(redis))

"""A ring is one message that holds an id, on the queue of its task."""

import json

import pytest
from redis import Redis

from core.spec.bell import (
    CHAT_QUEUE,
    CHAT_TASK,
    PREPARE_QUEUE,
    PREPARE_TASK,
    TRAIN_QUEUE,
    TRAIN_TASK,
)
from worker.app import configure, ring


@pytest.mark.parametrize(
    ("task", "queue"),
    [(TRAIN_TASK, TRAIN_QUEUE), (PREPARE_TASK, PREPARE_QUEUE), (CHAT_TASK, CHAT_QUEUE)],
)
def test_a_ring_reaches_the_queue_of_its_task(settings, broker_url, task, queue):
    broker_url = broker_url.removesuffix("/0") + "/1"  # where no worker listens
    configure(settings.model_copy(update={"broker_url": broker_url}))
    with Redis.from_url(broker_url) as redis:
        redis.flushdb()
        ring(task, "an-id")
        (message,) = redis.lrange(queue, 0, -1)
    headers = json.loads(message)["headers"]
    assert (headers["task"], headers["argsrepr"]) == (task, "('an-id',)")
    assert headers["expires"] is not None

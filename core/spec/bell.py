"""The doorbell's words: which task is rung on which queue.

A message carries only an id and no meaning of its own; the row says what is to be done. Whoever rings
(API, janitor) and whoever answers (worker) share these names and the time-outs below, nothing else.
"""

from typing import Any, Final

TRAIN_TASK: Final = "castalia.train"
PREPARE_TASK: Final = "castalia.prepare"
TRAIN_QUEUE: Final = "train"
PREPARE_QUEUE: Final = "prepare"
CHAT_TASK: Final = "castalia.chat"
CHAT_QUEUE: Final = "chat"

QUEUE_OF_TASK: Final = {
    TRAIN_TASK: TRAIN_QUEUE,
    PREPARE_TASK: PREPARE_QUEUE,
    CHAT_TASK: CHAT_QUEUE,
}

BELL_SETTINGS: Final[dict[str, Any]] = {
    "task_ignore_result": True,
    "task_publish_retry": False,
    "broker_transport_options": {
        "socket_connect_timeout": 1.0,
        "socket_timeout": 5.0,
        "health_check_interval": 5,
    },
}
"""Celery settings of whoever rings: a request must never hang on the broker; the sweep rings again."""

RING_EXPIRES_S: Final = 60
"""A ring that nobody heard for a minute is worthless: the sweep has rung again by then."""

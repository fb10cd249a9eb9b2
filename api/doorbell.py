"""Rings the workers after a commit. A ring that fails harms nothing: the sweep rings again."""

import logging

from celery import Celery
from kombu.exceptions import OperationalError

from core.spec.bell import BELL_SETTINGS, QUEUE_OF_TASK, RING_EXPIRES_S

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 2.0
"""A user waits meanwhile, and the sweep rings anyway: one short try, not four seconds of them."""


class Doorbell:
    """The sending side of the queue."""

    def __init__(self, broker_url: str) -> None:
        self._celery = Celery("castalia-api", broker=broker_url, set_as_current=False)
        self._celery.conf.update(BELL_SETTINGS)
        self._celery.conf.broker_transport_options = {
            **BELL_SETTINGS["broker_transport_options"],
            "socket_timeout": ANSWER_LIMIT_S,
            "max_retries": 0,
        }

    def ring(self, task: str, id: str) -> bool:
        """Tell a worker to look at ``id``; returns whether the ring was heard by the broker."""
        try:
            self._celery.send_task(
                task, (id,), queue=QUEUE_OF_TASK[task], expires=RING_EXPIRES_S, retry=False
            )
        except OperationalError as error:
            log.warning("broker unavailable, the sweep will ring for %s: %s", id, error)
            return False
        return True

    def reachable(self) -> bool:
        """Whether the broker answers now."""
        try:
            with self._celery.connection_for_write() as connection:
                connection.ensure_connection(max_retries=0)
        except OperationalError:
            return False
        return True

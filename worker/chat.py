"""Answers chats: takes an order from the broker, has the loaded model answer it, and sends its replies back.

One order at a time. Whoever waits keeps the order's key alive; where it is gone the answer is broken off.
"""

import logging
import time
from collections.abc import Iterator

from redis import Redis
from redis.exceptions import RedisError

from core.spec.chat import (
    REPLIES_LIFE_S,
    ChatOrder,
    ChatReply,
    Ended,
    Refused,
    order_key,
    replies_key,
)
from core.store.database import DatabaseDown
from core.store.errors import ArtifactsDown, NotFound
from worker.chat_model import ChatModel, ChatModels, ModelLost, refusal
from worker.context import WorkerContext

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5


class ChatDesk:
    """Serves the orders of one process."""

    def __init__(self, context: WorkerContext) -> None:
        self._limit_s = context.settings.chat_limit_s
        self._redis = Redis.from_url(context.settings.broker_url)
        self._models = ChatModels(context)

    def serve(self, order_id: str) -> None:
        """Answer an order, if somebody still waits for it."""
        try:
            found = self._redis.get(order_key(order_id))
            if not isinstance(found, bytes):
                log.info("nobody waits for %s any more", order_id)
                return
            for reply in self._replies(order_id, ChatOrder.model_validate_json(found)):
                self._send(order_id, reply)
        except RedisError as error:
            log.warning("%s is not answered: %s", order_id, error)

    def close(self) -> None:
        """Let the model go."""
        self._models.close()
        self._redis.close()

    def _replies(self, order_id: str, order: ChatOrder) -> Iterator[ChatReply]:
        try:
            model = self._models.get(order.project_id, order.model)
            yield from self._spoken(order_id, order, model)
        except NotFound as error:
            yield Refused(status=404, code="model_not_found", message=str(error), param="model")
        except ModelLost as error:
            self._models.close()
            yield refusal(error)
        except (*DatabaseDown, ArtifactsDown, OSError) as error:
            log.warning("a model cannot be had: %s", str(error).splitlines()[0])
            yield Refused(
                status=503, code="store_unavailable", message="the weights cannot be read"
            )

    def _spoken(self, order_id: str, order: ChatOrder, model: ChatModel) -> Iterator[ChatReply]:
        """Everything up to the end; what comes after nobody waits is read and thrown away."""
        model.ask(order.turn)
        wanted, heard_at = True, time.monotonic()
        looked_at = heard_at
        while True:
            reply = model.reply(LOOK_EVERY_S)
            now = time.monotonic()
            if reply is None and now - heard_at > self._limit_s:
                raise ModelLost(f"nothing was heard of the model for {self._limit_s:g} s")
            if wanted and now - looked_at >= LOOK_EVERY_S:
                looked_at = now
                wanted = bool(self._redis.exists(order_key(order_id)))
                if not wanted:
                    model.stop()
            if reply is None:
                continue
            heard_at = now
            if wanted:
                yield reply
            if isinstance(reply, Refused) and reply.fatal:
                self._models.close()
            if isinstance(reply, Ended | Refused):
                return

    def _send(self, order_id: str, reply: ChatReply) -> None:
        key = replies_key(order_id)
        with self._redis.pipeline() as pipe:
            pipe.rpush(key, reply.model_dump_json())
            pipe.expire(key, REPLIES_LIFE_S)
            pipe.execute()

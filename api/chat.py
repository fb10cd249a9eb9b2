"""Orders to whoever answers chats, and what comes back, through the broker.

The order's key is renewed while the client waits, and only then: a client that hangs up, or an API process
that dies, is noticed by the worker when the key is gone.
"""

import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool

from api.errors import ApiError
from api.service import Service
from core.spec.bell import CHAT_QUEUE, CHAT_TASK
from core.spec.chat import (
    ORDER_LIFE_MS,
    ChatOrder,
    ChatReply,
    Ended,
    Refused,
    chat_reply,
    order_key,
    replies_key,
)

LOOK_EVERY_S = 0.5
RENEW_EVERY_S = ORDER_LIFE_MS / 1000 / 5
NO_RETRY = {"x-should-retry": "false"}
Gone = Callable[[], Awaitable[bool]]


async def replies_to(
    service: Service, order: ChatOrder, order_id: str, gone: Gone
) -> AsyncGenerator[ChatReply, None]:
    """The replies to an order, `Ended` last, or fewer where the client is ``gone``. Raises ApiError."""
    try:
        async with Redis.from_url(service.settings.broker_url) as redis:
            await _place(service, redis, order, order_id)
            async for reply in _heard(redis, order_id, gone, service.settings.chat_limit_s):
                if isinstance(reply, Refused):
                    raise refused(reply)
                yield reply
            await redis.delete(order_key(order_id))
    except RedisError as error:
        raise _unavailable("the broker cannot be reached", "broker_unavailable") from error


def refused(reply: Refused) -> ApiError:
    """The answer of a worker that will not, or cannot, answer; trying again at once would not help."""
    return ApiError(
        reply.status, reply.message, code=reply.code, param=reply.param, headers=NO_RETRY
    )


async def _place(service: Service, redis: Redis, order: ChatOrder, order_id: str) -> None:
    waiting = await redis.llen(CHAT_QUEUE)
    if waiting >= service.settings.chat_queue:
        raise _unavailable(f"{waiting} chats are waiting already", "chat_busy")
    await redis.set(order_key(order_id), order.model_dump_json(), px=ORDER_LIFE_MS)
    if not await run_in_threadpool(service.doorbell.ring, CHAT_TASK, order_id):
        raise _unavailable("the broker cannot be reached", "broker_unavailable")


async def _heard(
    redis: Redis, order_id: str, gone: Gone, limit_s: float
) -> AsyncGenerator[ChatReply, None]:
    heard_at = renewed_at = time.monotonic()
    while not await gone():
        found = await redis.blpop([replies_key(order_id)], timeout=LOOK_EVERY_S)
        now = time.monotonic()
        if now - renewed_at >= RENEW_EVERY_S:
            renewed_at = now
            await redis.pexpire(order_key(order_id), ORDER_LIFE_MS)
        if found is not None:
            heard_at = now
            reply = chat_reply.validate_json(found[1])
            yield reply
            if isinstance(reply, Ended | Refused):
                return
        elif now - heard_at > limit_s:
            message = f"nobody answered for {limit_s:g} s; is a worker of the queue 'chat' running?"
            raise _unavailable(message, "chat_timed_out")


def _unavailable(message: str, code: str) -> ApiError:
    hint = "try again later; an order that nobody waits for is given up"
    return ApiError(503, message, code=code, hint=hint, headers={"retry-after": "5"})

"""How often a key may ask: a bucket of tokens that a request takes one of, and that fills with time.

The one idea: the bucket lies in the broker, where one script reads, refills and writes it, so that all API
processes draw from the same. A broker that is away lets everybody through: a limit guards the service from
haste, and is no reason to answer nobody. It is then left alone for a moment, so that requests do not wait
for it one after the other.
"""

import logging
import time
from dataclasses import dataclass

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

log = logging.getLogger(__name__)

ANSWER_LIMIT_S = 0.25
LEFT_ALONE_S = 5.0
NAME = "castalia:rate:"

# KEYS: the bucket. ARGV: tokens in a full one, milliseconds in which it fills. Returns whether a token was
# taken, and those that are left, as text, since the protocol has no fractions.
SCRIPT = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + clock[2] / 1000
local full, fills_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local held = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local passed = math.max(0, now - (tonumber(held[2]) or now))
local tokens = math.min(full, (tonumber(held[1]) or full) + passed * full / fills_ms)
local taken = 0
if tokens >= 1 then
  tokens = tokens - 1
  taken = 1
end
redis.call('HSET', KEYS[1], 'tokens', tostring(tokens), 'at', string.format('%.3f', now))
redis.call('PEXPIRE', KEYS[1], fills_ms)
return {taken, tostring(tokens)}
"""
FILLS_S = 60.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of a bucket after a request. ``granted``: whether there was a token for it."""

    limit: int
    tokens: float
    granted: bool

    @property
    def wait_ms(self) -> int:
        """Milliseconds until there is a token again, at least one."""
        return max(1, round((1.0 - self.tokens) * self._ms_a_token))

    @property
    def headers(self) -> dict[str, str]:
        """OpenAI's three, the last as a duration until the bucket is full."""
        reset_ms = round((self.limit - self.tokens) * self._ms_a_token)
        return {
            "x-ratelimit-limit-requests": str(self.limit),
            "x-ratelimit-remaining-requests": str(int(self.tokens)),
            "x-ratelimit-reset-requests": f"{reset_ms}ms",
        }

    @property
    def _ms_a_token(self) -> float:
        return FILLS_S * 1000.0 / self.limit


class Rates:
    """The buckets of all keys, each of ``per_minute`` tokens that come back in a minute; 0: no limit."""

    def __init__(self, broker_url: str, per_minute: int) -> None:
        self._per_minute = per_minute
        self._broker: Redis = Redis.from_url(
            broker_url,
            socket_timeout=ANSWER_LIMIT_S,
            socket_connect_timeout=ANSWER_LIMIT_S,
            retry=Retry(NoBackoff(), 0),
        )
        self._take = self._broker.register_script(SCRIPT)
        self._left_alone_until = 0.0

    def draw(self, key_id: str) -> Allowance | None:
        """Take a token for one request of this key; None where nothing is counted."""
        if not self._per_minute or time.monotonic() < self._left_alone_until:
            return None
        try:
            taken, tokens = self._take(
                keys=[NAME + key_id], args=[self._per_minute, round(FILLS_S * 1000)]
            )
        except RedisError as error:
            self._left_alone_until = time.monotonic() + LEFT_ALONE_S
            log.warning("requests are not counted, the broker is away: %s", type(error).__name__)
            return None
        return Allowance(self._per_minute, float(tokens), bool(taken))

    def close(self) -> None:
        """Give the connections back."""
        self._broker.close()

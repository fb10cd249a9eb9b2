"""When a webhook is sent again: at once, then ever more rarely for four days, as Standard Webhooks proposes.

Each wait is drawn out by up to a fifth, so that a receiver that comes back is not met by everything at once.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MINUTE, HOUR = 60.0, 3600.0
WAITS_S = (
    5.0,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)
MOST_TRIES = len(WAITS_S) + 1
JITTER = 0.2
LONGEST_ASKED_S = WAITS_S[-1]
BUSY = (429, 502, 503, 504)
"""Answers whose Retry-After is heeded."""


def wait_s(tries: int, asked_s: float | None, chance: float) -> float | None:
    """Seconds until the next try after so many, at least one; None: there is none.

    ``asked_s``: the least that the receiver asked for. ``chance`` is from 0 to 1.
    """
    if tries >= MOST_TRIES:
        return None
    asked = min(asked_s or 0.0, LONGEST_ASKED_S)
    return max(WAITS_S[tries - 1], asked) * (1 + JITTER * chance)


def asked_wait_s(status: int, retry_after: str | None, now: datetime) -> float | None:
    """What a Retry-After asks for, in seconds or as a date; None where there is none to heed."""
    if retry_after is None or status not in BUSY:
        return None
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds())

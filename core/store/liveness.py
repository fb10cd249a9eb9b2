"""Whether a pooled connection still lives, asked of those that rested.

Asking each one each time costs a round trip a transaction, which is much where many clients poll. A
connection that was used a moment ago is trusted instead: if its server went just then, the one transaction
that finds it out fails, as it would have failed a moment later, and all older connections are dropped.
"""

import time
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event, exc

_RESTING_SINCE = "resting_since"


def ping_the_rested(
    engine: Engine, rested_s: float, clock: Callable[[], float] = time.monotonic
) -> None:
    """From now on connections of ``engine`` that rested for so long are asked before they are given out."""

    @event.listens_for(engine, "checkin")
    def _(_connection: Any, record: Any) -> None:
        record.info[_RESTING_SINCE] = clock()

    @event.listens_for(engine, "checkout")
    def _(connection: Any, record: Any, _proxy: Any) -> None:
        since = record.info.get(_RESTING_SINCE)
        if since is None or clock() - since < rested_s:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise exc.InvalidatePoolError from error

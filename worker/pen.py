"""Patience with a store that is away, and the pen that writes with it: a run outlives an outage."""

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

from core.spec.errors import ExitCode, JobError, RunFailure
from core.store.database import Database, DatabaseDown, Session
from core.store.errors import ArtifactsDown
from worker.keeper import LeaseKeeper

log = logging.getLogger(__name__)

RETRY_S = 1.0
T = TypeVar("T")


def patiently(
    do: Callable[[], T], keeper: LeaseKeeper, trouble: str, *, limit_s: float = math.inf
) -> T:
    """What ``do`` returns, which must be safe to repeat, once the store is there for it.

    A database is waited for as long as the lease is held, artifacts for ``limit_s``. Raises LeaseLost, and
    RunFailure after the limit.
    """
    refused_since: float | None = None
    while True:
        try:
            return do()
        except DatabaseDown as error:
            reason = str(error).splitlines()[0]
        except ArtifactsDown as error:
            reason = str(error)
            refused_since = refused_since or time.monotonic()
            if time.monotonic() - refused_since >= limit_s:
                raise store_unavailable(reason) from error
        log.warning("%s, trying again: %s", trouble, reason)
        keeper.pause(RETRY_S)


def store_unavailable(reason: str) -> RunFailure:
    """The attempt cannot keep what it makes, or cannot get at what was kept."""
    return RunFailure(
        JobError(
            code="store_unavailable",
            message=f"the artifact store cannot be used: {reason}",
            fault="platform",
            retryable=True,
            hint="look at the store that CASTALIA_ARTIFACTS_URL names: is it there, and is it full?",
        ),
        ExitCode.disk,
    )


class Pen:
    """One transaction a change, repeated until the database has it or the lease is lost."""

    def __init__(self, database: Database, keeper: LeaseKeeper) -> None:
        self._database = database
        self._keeper = keeper

    def write(self, change: Callable[[Session], T]) -> T:
        """What ``change`` returns, which must be safe to repeat. Raises LeaseLost."""
        return patiently(lambda: self._write(change), self._keeper, "not written")

    def _write(self, change: Callable[[Session], T]) -> T:
        with self._database.begin() as session:
            return change(session)

"""Writes what a worker has to say, and waits for a database that is away: a run outlives an outage."""

import logging
from collections.abc import Callable

from core.store.database import Database, DatabaseDown, Session
from worker.keeper import LeaseKeeper

log = logging.getLogger(__name__)

RETRY_S = 1.0


class Pen:
    """One transaction a change, repeated until the database has it or the lease is lost."""

    def __init__(self, database: Database, keeper: LeaseKeeper) -> None:
        self._database = database
        self._keeper = keeper

    def write(self, change: Callable[[Session], object]) -> None:
        """Apply ``change``, which must be safe to repeat. Raises LeaseLost."""
        while True:
            try:
                with self._database.begin() as session:
                    change(session)
            except DatabaseDown as error:
                log.warning("not written, trying again: %s", str(error).splitlines()[0])
                self._keeper.pause(RETRY_S)
            else:
                return

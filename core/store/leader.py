"""One of several equal processes leads: whoever holds an advisory lock, for as long as its connection lives.

The lock dies with the connection, so a leader that is killed, or cut off from the database, is succeeded
by the first other that asks. Nothing depends on there being only one: what a leader does is guarded by
itself, and the lock merely spares the work of doing it twice.
"""

from contextlib import suppress

from sqlalchemy import Connection, text

from core.store.database import Database, DatabaseDown

JANITOR_LOCK = 0x_CA57_A11B
COURIER_LOCK = 0x_CA57_A11C


class Leadership:
    """The wish to lead under ``key``. `held` asks again each time; `release` lets another one lead."""

    def __init__(self, database: Database, key: int = JANITOR_LOCK) -> None:
        self._database = database
        self._key = key
        self._connection: Connection | None = None

    def held(self) -> bool:
        """Whether we lead now, having tried to. Raises one of DatabaseDown."""
        try:
            if self._connection is not None:
                self._connection.scalar(text("select 1"))
                return True
            self._connection = self._locked_connection()
        except DatabaseDown:  # The lock is gone with the connection.
            self._forget()
            raise
        return self._connection is not None

    def release(self) -> None:
        """Let go; the next one to ask will lead."""
        if self._connection is not None:
            with suppress(*DatabaseDown):
                self._connection.scalar(text("select pg_advisory_unlock(:key)"), {"key": self._key})
        self._forget()

    def _forget(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _locked_connection(self) -> Connection | None:
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if connection.scalar(text("select pg_try_advisory_lock(:key)"), {"key": self._key}):
            return connection
        connection.close()
        return None

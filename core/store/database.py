"""The connection to Postgres, and the one way to open a transaction.

Sessions are synchronous: FastAPI runs plain routes in threads, Celery is synchronous anyway, and one kind
of session means one set of store functions.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine, create_engine, exc, make_url
from sqlalchemy.orm import Session, sessionmaker

from core.store.liveness import ping_the_rested

__all__ = ["Database", "DatabaseDown", "Session"]

CONNECT_TIMEOUT_S = 5
SILENCE_S = 20
"""A server that confirms nothing for so long is away: a third of a usual lease, and far less than the quarter
of an hour after which a system gives a cut line up by itself."""
_LINE = {
    "keepalives_idle": SILENCE_S // 2,
    "keepalives_interval": SILENCE_S // 4,
    "keepalives_count": 2,
    "tcp_user_timeout": 1000 * SILENCE_S,
}
DatabaseDown = (exc.OperationalError, exc.InterfaceError, exc.TimeoutError)
"""What SQLAlchemy raises when the server cannot be reached, went away, or has no connection left."""


class Database:
    """A pool of connections to one Postgres.

    Each is asked whether it lives before it is given out; with ``trusted_s`` only if it rested for so long.
    """

    def __init__(self, url: str, *, pool_size: int = 10, trusted_s: float = 0.0) -> None:
        parsed = make_url(url)
        if parsed.get_backend_name() != "postgresql":
            raise ValueError(
                f"database_url: {parsed.drivername} is not supported; use postgresql://…"
            )
        self.engine: Engine = create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_pre_ping=trusted_s == 0,
            pool_size=pool_size,
            max_overflow=pool_size,
            hide_parameters=True,  # what users sent stays out of tracebacks in the log
            connect_args={
                "connect_timeout": CONNECT_TIMEOUT_S,
                "application_name": "castalia",
                **_LINE,
            },
        )
        if trusted_s > 0:
            ping_the_rested(self.engine, trusted_s)
        self._sessions = sessionmaker(self.engine, expire_on_commit=False)

    @contextmanager
    def begin(self) -> Iterator[Session]:
        """One transaction: committed at the end of the block, rolled back if the block raises."""
        with self._sessions.begin() as session:
            yield session

    def close(self) -> None:
        """Give all connections back."""
        self.engine.dispose()

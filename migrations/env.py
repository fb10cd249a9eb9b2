"""What Alembic runs: the migrations, in one transaction, under the lock."""

import os

from alembic import context
from sqlalchemy import Connection, Engine, create_engine, text

from core.store.tables import Row

ADVISORY_LOCK = 0x_CA57_A11A
LOCK_TIMEOUT = "15s"
STATEMENT_TIMEOUT = "300s"


def run(connection: Connection) -> None:
    """All open migrations on one connection."""
    context.configure(connection=connection, target_metadata=Row.metadata)
    with context.begin_transaction():
        connection.execute(text(f"set local lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.execute(text(f"set local statement_timeout = '{STATEMENT_TIMEOUT}'"))
        connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        context.run_migrations()


def engine() -> Engine:
    """The caller's engine, or for the `alembic` command that of CASTALIA_DATABASE_URL."""
    given: Engine | None = context.config.attributes.get("engine")
    if given is not None:
        return given
    url = os.environ["CASTALIA_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://", 1)
    return create_engine(url)


with engine().connect() as opened:
    run(opened)

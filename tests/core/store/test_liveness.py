"""A connection that rested is asked whether it lives; one that was just used is trusted."""

import psycopg
import pytest
from sqlalchemy import create_engine, exc, make_url, text

from core.store.liveness import ping_the_rested

RESTED_S = 5.0


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def engine(database_url, now):
    url = make_url(database_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, pool_size=1)
    ping_the_rested(engine, RESTED_S, clock=lambda: now[0])
    yield engine
    engine.dispose()


@pytest.fixture
def kill(engine, database_url):
    """Ends the pool's one connection from the other side."""
    with engine.connect() as connection:
        pid = connection.scalar(text("select pg_backend_pid()"))

    def do() -> None:
        plain = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        with psycopg.connect(plain, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", [pid])

    return do


def one(engine) -> int:
    with engine.connect() as connection:
        return connection.scalar(text("select 1"))


def test_a_dead_connection_that_rested_is_replaced_unseen(engine, kill, now):
    kill()
    now[0] += RESTED_S
    assert one(engine) == 1


def test_a_dead_connection_that_was_just_used_fails_once(engine, kill):
    kill()
    with pytest.raises(exc.OperationalError):
        one(engine)
    assert one(engine) == 1


def test_a_living_connection_is_kept(engine, now):
    with engine.connect() as connection:
        first = connection.scalar(text("select pg_backend_pid()"))
    now[0] += RESTED_S
    with engine.connect() as connection:
        assert connection.scalar(text("select pg_backend_pid()")) == first

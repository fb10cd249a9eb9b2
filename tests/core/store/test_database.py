"""One transaction a block, and one name for every way in which the database can be away."""

import socket

import pytest
from sqlalchemy import text

from castalia.ports import free_port
from core.store.database import SILENCE_S, Database, DatabaseDown


@pytest.mark.parametrize("url", ["sqlite://", "mysql://h/d", "redis://h"])
def test_another_kind_of_database_is_refused(url):
    with pytest.raises(Exception, match=r"not supported|Can't load"):
        Database(url)


def test_what_raised_is_rolled_back(database):
    with pytest.raises(ZeroDivisionError), database.begin() as session:  # noqa: PT012
        session.execute(text("create table t (x int)"))
        raise ZeroDivisionError
    with database.begin() as session:
        assert session.scalar(text("select to_regclass('t')")) is None


def test_a_server_that_is_not_there_is_down():
    database = Database(f"postgresql://u:p@127.0.0.1:{free_port()}/d")
    with pytest.raises(DatabaseDown), database.engine.connect():
        pass


def test_a_connection_that_was_killed_is_down_and_the_next_is_well(database):
    kill = text("select pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(DatabaseDown), database.begin() as session:
        session.execute(kill)
    with database.begin() as session:
        assert session.scalar(text("select 1")) == 1


def test_a_pool_that_has_none_left_is_down(database_url):
    database = Database(database_url, pool_size=1)
    database.engine.pool._timeout = 0.05
    with database.begin() as one, database.begin() as two:
        one.execute(text("select 1"))
        two.execute(text("select 1"))
        with pytest.raises(DatabaseDown), database.begin() as three:
            three.execute(text("select 1"))
    database.close()


def test_a_line_that_is_cut_is_given_up_in_time(database):
    with database.engine.connect() as connection:
        line = socket.socket(fileno=connection.connection.driver_connection.fileno())
        try:
            tcp = [
                line.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
                for name in (
                    "TCP_USER_TIMEOUT", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT",
                )
            ]  # fmt: skip
            kept_alive = line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        finally:
            line.detach()
    timeout, idle, interval, count = tcp
    assert kept_alive
    assert timeout == 1000 * SILENCE_S
    assert idle + interval * count <= SILENCE_S

"""The embedded Postgres, run from its real binaries."""

import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from castalia.child import Child
from castalia.embedded import PostgresServer
from castalia.errors import ChildCannotStartError, ClusterNotMadeError, ClusterUnusableError
from castalia.ports import free_port

Start = Callable[[Child], subprocess.Popen[bytes]]


def query(server: PostgresServer, statement: str) -> list[tuple[object, ...]]:
    url = server.url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_answers_under_its_url_in_utf8_and_says_when_it_is_ready(
    postgres: PostgresServer, start: Start
) -> None:
    assert not postgres.ready()
    start(postgres.child())
    assert query(postgres, "show server_encoding") == [("UTF8",)]
    assert query(postgres, "show unix_socket_directories") != [("",)]


def test_data_survives_a_stop_and_the_kill_of_the_postmaster(
    postgres: PostgresServer, start: Start
) -> None:
    process = start(postgres.child())
    query(postgres, "create table kept as select 7 as n")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    process = start(postgres.child())
    query(postgres, "insert into kept values (8)")
    process.kill()
    process.wait()
    postgres.prepare()
    start(postgres.child())
    assert query(postgres, "select n from kept order by n") == [(7,), (8,)]


def test_only_the_password_opens_it_and_only_on_loopback(
    postgres: PostgresServer, start: Start
) -> None:
    start(postgres.child())
    for wrong in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(
                host="127.0.0.1", port=postgres.port, user="app", dbname="postgres", password=wrong
            )
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", postgres.port), timeout=1)


def test_the_password_is_private_and_stays_the_same(postgres: PostgresServer) -> None:
    secret = postgres.password_file.read_text().strip()
    assert stat.S_IMODE(postgres.password_file.stat().st_mode) == 0o600
    assert len(secret) >= 32
    assert not any(secret in word for word in postgres.argv())
    postgres.prepare()
    assert postgres.password_file.read_text().strip() == secret


def test_a_half_made_cluster_is_made_again(template: Path) -> None:
    assert not (template / "cluster.new").exists()
    assert (template / "cluster" / "global" / "pg_control").exists()


def test_a_failed_initdb_leaves_no_cluster_and_tells_its_reason(tmp_path: Path) -> None:
    data_dir = tmp_path / "postgres"
    (data_dir / "password").mkdir(parents=True)
    with pytest.raises(ClusterNotMadeError, match="password"):
        PostgresServer(data_dir, free_port()).prepare()
    assert not (data_dir / "cluster").exists()


def test_a_cluster_of_another_major_version_is_refused(postgres: PostgresServer) -> None:
    (postgres.cluster / "PG_VERSION").write_text("12\n")
    with pytest.raises(ClusterUnusableError, match=r"PostgreSQL 12, .* 18.*pg_upgrade"):
        postgres.prepare()


def test_programs_that_do_not_run_are_reported(tmp_path: Path) -> None:
    (tmp_path / "postgres").write_text("#!/bin/sh\necho library missing >&2; exit 127\n")
    (tmp_path / "postgres").chmod(0o755)
    with pytest.raises(ChildCannotStartError, match="library missing"):
        PostgresServer(tmp_path / "data", free_port(), binaries=tmp_path).prepare()


@pytest.mark.parametrize("lost", ["cluster/PG_VERSION", "password"])
def test_a_cluster_with_a_part_missing_is_refused_and_not_overwritten(
    postgres: PostgresServer, lost: str
) -> None:
    (postgres.data_dir / lost).unlink()
    with pytest.raises(ClusterUnusableError, match="begin afresh"):
        postgres.prepare()
    assert (postgres.cluster / "global").is_dir()


def test_runs_without_a_socket_where_the_path_is_too_long(template: Path, tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 25) / "postgres"
    shutil.copytree(template, folder)
    server = PostgresServer(folder, free_port())
    server.prepare()
    assert server.argv()[-1] == ""

"""What a former Postgres left behind never stands in the way, and no stranger is harmed."""

import signal
import subprocess
import time
from collections.abc import Callable

import psycopg
import pytest

from castalia.child import Child
from castalia.embedded import PostgresServer
from castalia.embedded.former import clear_former, postmaster_pid, processes_in
from castalia.errors import PostmasterStuckError

Start = Callable[[Child], subprocess.Popen[bytes]]


def test_an_orphan_postmaster_is_shut_down_cleanly(postgres: PostgresServer, start: Start) -> None:
    orphan = start(postgres.child())
    assert processes_in(postgres.cluster)
    postgres.prepare()
    assert orphan.wait(5) == 0
    assert processes_in(postgres.cluster) == []
    start(postgres.child())
    assert postgres.ready()


def test_a_busy_backend_of_a_killed_postmaster_is_waited_for(
    postgres: PostgresServer, start: Start
) -> None:
    killed = start(postgres.child())
    connection = psycopg.connect(postgres.url.replace("+psycopg", ""))
    connection.pgconn.send_query(b"select count(*) from generate_series(1, 3000000)")
    killed.kill()
    killed.wait()
    assert processes_in(postgres.cluster)
    clear_former(postgres.cluster)
    assert processes_in(postgres.cluster) == []
    connection.close()
    start(postgres.child())
    assert postgres.ready()


def test_a_stale_file_with_the_number_of_a_stranger_harms_nobody(
    postgres: PostgresServer, start: Start
) -> None:
    stranger = subprocess.Popen(["sleep", "60"], cwd=postgres.cluster)
    try:
        (postgres.cluster / "postmaster.pid").write_text(f"{stranger.pid}\n{postgres.cluster}\n")
        postgres.prepare()
        start(postgres.child())
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_empty_pid_file_of_a_crash_is_read_as_nobody(postgres: PostgresServer) -> None:
    (postgres.cluster / "postmaster.pid").write_text("")
    assert postmaster_pid(postgres.cluster) is None
    clear_former(postgres.cluster)


def test_a_postgres_that_will_not_end_is_named_after_ten_seconds(
    postgres: PostgresServer, start: Start
) -> None:
    stubborn = start(postgres.child())
    # A frozen process can neither obey nor end; time is ours, so the ten seconds cost nothing.
    stubborn.send_signal(signal.SIGSTOP)
    now = time.monotonic()
    slept: list[float] = []
    try:
        with pytest.raises(PostmasterStuckError, match=str(stubborn.pid)):
            clear_former(postgres.cluster, lambda: now + sum(slept), slept.append)
    finally:
        stubborn.send_signal(signal.SIGCONT)
    assert sum(slept) == pytest.approx(10, abs=0.1)

"""An API that is told to end answers the request in hand, takes no new one, and goes."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from sqlalchemy import text

from castalia.ports import free_port

LIMIT_S = 120


@pytest.fixture
def api(database_url, toy_models_dir, tmp_path):
    """The process, and where it listens."""
    port = free_port()
    env = {
        **os.environ,
        "CASTALIA_DATABASE_URL": database_url,
        "CASTALIA_BROKER_URL": "redis://127.0.0.1:1/0",
        "CASTALIA_MODELS_DIR": str(toy_models_dir),
    }
    with (tmp_path / "log").open("w") as log:
        command = [sys.executable, "-m", "castalia", "api", f"--port={port}"]
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    until(lambda: answers(url))
    yield process, url
    process.kill()
    process.wait()


def answers(url):
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False


def until(condition):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_request_in_flight_is_answered_and_then_it_goes(api, database, secret):
    process, url = api
    port = int(url.rpartition(":")[2])
    body = b'{"model": "none"}'
    head = (
        f"POST /v1/fine_tuning/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(head.encode())
        with database.begin() as session:
            # Whoever asks is looked up; that waits here, so that the request is surely in hand.
            session.execute(text("lock table keys in access exclusive mode"))
            line.sendall(body)
            until(lambda: waits_for_lock(database))
            process.send_signal(signal.SIGTERM)
            until(lambda: not answers(url))
            assert process.poll() is None
        answer = b"".join(iter(lambda: line.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert process.wait(LIMIT_S) is not None


def waits_for_lock(database):
    query = "select count(*) from pg_locks where not granted"
    with database.begin() as session:
        return session.scalar(text(query)) > 0

"""The embedded Valkey, run from its real binary."""

import socket
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from castalia.child import Child
from castalia.embedded import ValkeyServer
from castalia.ports import free_port

Start = Callable[[Child], subprocess.Popen[bytes]]


@pytest.fixture
def valkey(tmp_path: Path) -> ValkeyServer:
    server = ValkeyServer(tmp_path / "val key", free_port())
    server.prepare()
    return server


def ask(server: ValkeyServer, *lines: str) -> list[bytes]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=2) as connection:
        connection.sendall("".join(f"{line}\r\n" for line in lines).encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read().splitlines()


def test_answers_with_the_password_of_its_url_and_not_without(
    valkey: ValkeyServer, start: Start
) -> None:
    assert not valkey.ready()
    start(valkey.child())
    secret = valkey.url.removeprefix("redis://:").split("@")[0]
    assert ask(valkey, f"AUTH {secret}", "PING") == [b"+OK", b"+PONG"]
    assert ask(valkey, "PING")[0].startswith(b"-NOAUTH")
    assert ask(valkey, "AUTH wrong")[0].startswith(b"-WRONGPASS")
    assert valkey.url.endswith(f"@127.0.0.1:{valkey.port}/0")


def test_another_server_on_the_port_is_not_taken_for_ready(
    valkey: ValkeyServer, tmp_path: Path, start: Start
) -> None:
    other = ValkeyServer(tmp_path / "other", valkey.port)
    other.prepare()
    start(other.child())
    assert not valkey.ready()


def test_the_password_is_in_private_files_and_on_no_command_line(valkey: ValkeyServer) -> None:
    secret = valkey.password_file.read_text().strip()
    assert not any(secret in word for word in valkey.argv())
    for file in (valkey.password_file, valkey.config_file):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_listens_on_loopback_only_and_saves_nothing(valkey: ValkeyServer, start: Start) -> None:
    process = start(valkey.child())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", valkey.port), timeout=1)
    secret = valkey.password_file.read_text().strip()
    assert ask(valkey, f"AUTH {secret}", "SET key value") == [b"+OK", b"+OK"]
    process.terminate()
    assert process.wait(5) == 0
    assert {file.name for file in valkey.data_dir.iterdir()} == {"password", "valkey.conf"}


def test_the_password_outlives_a_restart(valkey: ValkeyServer) -> None:
    url = valkey.url
    valkey.prepare()
    assert valkey.url == url

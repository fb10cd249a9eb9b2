"""Runs real servers: a cluster is made once a session and copied for each test."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castalia.child import Child
from castalia.embedded import PostgresServer
from castalia.ports import free_port

Start = Callable[[Child], subprocess.Popen[bytes]]


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder, in which a crash had left a half-made cluster before."""
    server = PostgresServer(tmp_path_factory.mktemp("template") / "postgres", free_port())
    half_made = server.data_dir / "cluster.new"
    (half_made / "base").mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    server.prepare()
    return server.data_dir


@pytest.fixture
def postgres(template: Path) -> Iterator[PostgresServer]:
    """A prepared server that does not run yet, below a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="castalia-") as folder:
        Path(folder).chmod(0o755)  # the server may belong to another user than the test
        shutil.copytree(template, Path(folder) / "postgres", symlinks=True)
        server = PostgresServer(Path(folder) / "postgres", free_port())
        server.prepare()
        yield server


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a child without the supervisor and waits until it is ready; ends it at last."""
    running: list[tuple[Child, subprocess.Popen[bytes]]] = []

    def begin(child: Child) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(child.argv, start_new_session=True)
        running.append((child, process))
        deadline = time.monotonic() + 20
        while child.ready is not None and not child.ready():
            assert process.poll() is None, f"{child.name} ended with {process.returncode}"
            assert time.monotonic() < deadline, f"{child.name} never became ready"
            time.sleep(0.02)
        return process

    yield begin
    for child, process in running:
        process.send_signal(child.stop_signal)
        process.wait(20)

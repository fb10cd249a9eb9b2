"""`castalia up` as a user starts it, with the toy model, and a stock `openai` client."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from castalia.ports import free_port

START_LIMIT_S = 90
STOP_LIMIT_S = 120
WORKER_LIMIT_S = 180


@dataclass(frozen=True)
class Service:
    """A running `castalia up`."""

    process: subprocess.Popen
    data: Path
    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        return (self.data / "secrets" / "api_key").read_text().strip()

    @property
    def client(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=self.key)

    def wait_until_up(self) -> None:
        """Until the last of its children has said that it is ready."""
        wait_for(lambda: re.search(r"^janitor +ready", self.output.read_text(), re.MULTILINE), self)
        assert httpx.get(f"{self.url}/readyz").json()["status"] == "ok"

    def child_pid(self, *words: str) -> int | None:
        """The process of the service on whose command line all the words stand."""
        for line in _processes():
            pid, _, command = line.strip().partition(" ")
            if all(word in command for word in (*words, "castalia")) and self._ours(int(pid)):
                return int(pid)
        return None

    def _ours(self, pid: int) -> bool:
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
        return str(self.data / "runs").encode() in environ


@pytest.fixture(scope="module")
def start_up(toy_models_dir, tmp_path_factory) -> Iterator[Callable[..., Service]]:
    """Starts `castalia up` in a folder of its own; all are stopped at the end of the module."""
    started: list[Service] = []

    def start(data: Path | None = None, **env: str) -> Service:
        folder = tmp_path_factory.mktemp("up")
        data = data or folder / "data"
        port, output = free_port(), folder / "output"
        command = [sys.executable, "-m", "castalia", "up", f"--data={data}"]
        command += [f"--port={port}", f"--models={toy_models_dir}"]
        with output.open("w") as out:
            process = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1", **env}
            )
        service = Service(process, data, port, output)
        started.append(service)
        service.wait_until_up()
        return service

    yield start
    for service in started:
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGINT)
            service.process.wait(STOP_LIMIT_S)


@pytest.fixture(scope="module")
def service(start_up) -> Service:
    """One running service for the tests that leave it as it was."""
    return start_up()


@pytest.fixture
def client(service) -> Iterator[OpenAI]:
    with service.client as client:
        yield client


@pytest.fixture
def rows_file(chat_lines, tmp_path):
    """Makes a file of this many chat rows."""

    def make(count: int, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_bytes(chat_lines(count))
        return path

    return make


def wait_for(condition: Callable[[], object], service: Service, limit_s: float = START_LIMIT_S):
    """The first true value of `condition`."""
    deadline = time.monotonic() + limit_s
    while not (value := condition()):
        assert service.process.poll() is None, service.output.read_text()
        assert time.monotonic() < deadline, service.output.read_text()
        time.sleep(0.1)
    return value


def _processes() -> list[str]:
    listed = subprocess.run(["ps", "-eo", "pid=,args="], check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


@pytest.fixture(name="wait_for", scope="session")
def give_wait_for() -> Callable[..., object]:
    return wait_for


@pytest.fixture
def worker(database_url, broker_url, toy_models_dir, tmp_path):
    """Starts `castalia worker` with these options, and settings beside the usual."""
    started = []

    def start(*options, **settings):
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CASTALIA_DATABASE_URL": database_url,
            "CASTALIA_BROKER_URL": broker_url.removesuffix("/0") + "/3",
            "CASTALIA_MODELS_DIR": str(toy_models_dir),
            "CASTALIA_RUNS_DIR": str(tmp_path / "runs"),
            "CASTALIA_CACHE_DIR": str(tmp_path / "cache"),
            "CASTALIA_POLL_S": "0.1",
            **{f"CASTALIA_{name}": value for name, value in settings.items()},
        }
        command = [sys.executable, "-m", "castalia", "worker", *options]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def ring(broker_url):
    from api.doorbell import Doorbell

    # Not the worker's own application, whose connections would stay with this broker for other tests.
    return Doorbell(broker_url.removesuffix("/0") + "/3").ring


@pytest.fixture
def add_job(database, project, training_file, chat_lines, toy_models_dir):
    """A queued job of 3,200 steps; its id."""
    from core.data.file_check import unfit_file
    from core.models.catalog import Catalog
    from core.spec.job import JobSpec
    from core.store.jobs import create_job

    def add(**trainer):
        document = {"model": "toy", "training_file": training_file(chat_lines(64))}
        document["trainer"] = trainer
        document["hyperparameters"] = {"n_epochs": 50, "batch_size": 1}
        spec = JobSpec.parse(document).resolved(Catalog(toy_models_dir).facts("toy"))
        with database.begin() as session:
            return create_job(session, project, spec, unfit=unfit_file).id

    return add


@pytest.fixture
def until(tmp_path):
    """Waits for what the worker does; else shows its log."""

    def wait(condition):
        deadline = time.monotonic() + WORKER_LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)

    return wait

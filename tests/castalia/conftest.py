"""Real child processes on a clock of our own, the command line, and a real service for it to speak with.

A second of the supervisor takes 20 ms here.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.settings import ApiSettings
from castalia.__main__ import main
from castalia.child import Child
from castalia.client import Client
from castalia.ports import free_port
from castalia.supervisor import Supervisor
from core.store.files import add_file

PACE = 0.02


class Stage:
    """Runs a supervisor over children until a condition holds, then asks it to stop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.now = 0.0
        self.supervisor: Supervisor

    def run(self, children: list[Child], until: Callable[[], bool], wishes: int = 1) -> int:
        asked: list[float] = []

        def sleep(seconds: float) -> None:
            self.now += seconds
            time.sleep(seconds * PACE)
            assert self.now < 600, f"never came to its end: {self.said}"
            if not asked and until():
                asked.append(self.now)
                for _ in range(wishes):
                    self.supervisor.request_stop()

        self.supervisor = Supervisor(
            children, self.folder, clock=lambda: self.now, sleep=sleep, say=self.said.append
        )
        return self.supervisor.run()

    def shell(self, name: str, script: str) -> Child:
        """A child that runs a script in the folder of the stage; it is ready at `touch $0.up`."""
        return Child(
            name,
            ("sh", "-c", f"cd '{self.folder}'\n{script}", name),
            ready=(self.folder / f"{name}.up").exists,
            start_limit_s=1e6,
            stop_grace_s=500.0,
        )

    def count(self, event: str) -> int:
        return sum(line.split()[1] == event for line in self.said)

    def pids(self, file: str) -> list[int]:
        path = self.folder / file
        return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_running(pid: int) -> bool:
    """Whether a process is there and not a zombie that nobody has reaped yet."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], limit_s: float = 15.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    left = [pid for file in tmp_path.glob("*.pids") for pid in made.pids(file.name)]
    assert not [pid for pid in left if is_running(pid)], "a process outlived the supervisor"


@pytest.fixture(name="is_running")
def give_is_running() -> Callable[[int], bool]:
    return is_running


@pytest.fixture(name="wait_until")
def give_wait_until() -> Callable[..., None]:
    return wait_until


@dataclass(frozen=True)
class Said:
    """What a command said, and the code that it ended with."""

    code: int
    out: str
    err: str


@pytest.fixture
def castalia(monkeypatch, capsys, tmp_path) -> Callable[..., Said]:
    """Runs the command line in an empty folder, with none of our variables but those given."""
    for name in [name for name in os.environ if name.startswith("CASTALIA_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*words: object, **variables: str) -> Said:
        for name, value in variables.items():
            monkeypatch.setenv(f"CASTALIA_{name}", value)
        monkeypatch.setattr(sys, "argv", ["castalia", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return Said(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def service(serve, database_url, tmp_path):
    """It knows one base model, `toy`, of which it reads the configuration only."""
    model = tmp_path / "models" / "toy"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"vocab_size": 258, "max_position_embeddings": 512}')
    return serve(
        ApiSettings(
            database_url=database_url,
            broker_url=f"redis://127.0.0.1:{free_port()}/0",
            models_dir=model.parent,
        )
    )


@pytest.fixture
def client(service, secret) -> Iterator[Client]:
    with Client(service.url, secret) as client:
        yield client


@pytest.fixture
def stored_file(database, blobs, project) -> Callable[..., str]:
    """A file of the project with this content; its id."""

    def make(content: bytes, filename: str = "result.bin") -> str:
        blob = blobs.write([content])
        with database.begin() as session:
            return add_file(session, project, filename=filename, purpose="user_data", blob=blob).id

    return make

"""Real child processes on a clock of our own: a second of the supervisor takes 20 ms here."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castalia.child import Child
from castalia.supervisor import Supervisor

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

"""Whatever ends the supervisor, its children end too."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from castalia.data_folder import open_data_folder
from castalia.embedded.former import processes_in
from castalia.errors import DataFolderInUseError

UP = """
import sys
from castalia.child import Child
from castalia.data_folder import open_data_folder
from castalia.embedded import PostgresServer, ValkeyServer
from castalia.ports import free_port
from castalia.supervisor import Supervisor
with open_data_folder(sys.argv[1]) as folder:
    postgres = PostgresServer(folder.postgres, free_port())
    valkey = ValkeyServer(folder.valkey, free_port())
    postgres.prepare()
    valkey.prepare()
    api = Child("api", ("sh", "-c", "sleep 600 & echo $! $$; trap '' TERM; wait; sleep 600"),
                stop_grace_s=0.5)
    children = [postgres.child(), valkey.child(), api]
    sys.exit(Supervisor(children, folder.logs, keep_open=(folder.lock_fd,)).run())
"""

Up = subprocess.Popen[str]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: every test starts on what the one before it left."""
    return tmp_path_factory.mktemp("up") / "data"


@pytest.fixture
def up(data: Path) -> Iterator[Up]:
    """A supervisor in a process of its own, with all three children ready."""
    command = [sys.executable, "-c", UP, str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = [process.stdout.readline().split()[:2] for _ in range(3)]
            assert ready == [["postgres", "ready"], ["valkey", "ready"], ["api", "ready"]]
            yield process
        finally:
            process.kill()


def all_pids(folder: Path) -> list[int]:
    """Postgres with its backends, Valkey, the api and its grandchild."""
    shown = (folder / "logs" / "valkey.log").read_text()
    valkey = int(re.findall(r"\bpid=(\d+)", shown)[-1])
    api = [int(word) for word in (folder / "logs" / "api.log").read_text().split()[-2:]]
    return [*processes_in(folder / "postgres" / "cluster"), valkey, *api]


def guards_of(supervisor: int) -> list[int]:
    label = f"castalia guard of {supervisor}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # it may end while we look
            if entry.name.isdigit() and label in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def is_free(folder: Path) -> bool:
    try:
        open_data_folder(folder).close()
    except DataFolderInUseError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stop_signal_ends_all_children_and_exits_with_zero(
    up: Up, data: Path, is_running: Callable[[int], bool], number: int
) -> None:
    pids = all_pids(data)
    assert all(is_running(pid) for pid in pids)
    up.send_signal(number)
    said, _ = up.communicate(timeout=20)
    assert up.returncode == 0
    assert said.split() == ["api", "killed", "valkey", "stopped", "postgres", "stopped"]
    assert not [pid for pid in pids if is_running(pid)]


def test_when_the_supervisor_is_killed_its_children_end_and_then_the_lock_goes(
    up: Up,
    data: Path,
    is_running: Callable[[int], bool],
    wait_until: Callable[..., None],
) -> None:
    pids = all_pids(data)
    up.kill()
    up.wait()
    with pytest.raises(DataFolderInUseError, match="still shutting down"):
        open_data_folder(data)
    wait_until(lambda: not [pid for pid in pids if is_running(pid)])
    log = (data / "logs" / "postgres.log").read_text()
    assert "database system is shut down" in log

    wait_until(lambda: is_free(data))


def test_a_killed_guard_is_replaced_and_the_new_one_knows_the_children(
    up: Up,
    data: Path,
    is_running: Callable[[int], bool],
    wait_until: Callable[..., None],
) -> None:
    pids = all_pids(data)
    former = guards_of(up.pid)
    os.kill(former[0], signal.SIGKILL)
    wait_until(lambda: guards_of(up.pid) not in ([], former))
    up.kill()
    wait_until(lambda: not [pid for pid in pids if is_running(pid)])
    wait_until(lambda: is_free(data))

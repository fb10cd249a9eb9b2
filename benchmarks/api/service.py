"""The service to be measured: Postgres, Valkey and the API, started as `castalia up` starts them.

Workers are left out: what they would write is written by `benchmarks.api.writers`, at a rate that is known.
"""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from castalia.child import Child, Life
from castalia.embedded.postgres import PostgresServer
from castalia.embedded.secret import write_private
from castalia.embedded.valkey import ValkeyServer
from castalia.guard import Guard
from castalia.ports import free_port
from core.store.keys import new_secret

START_LIMIT_S = 120
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Service:
    """A running service, the key of its default project, and the process that serves HTTP."""

    port: int
    key: str
    database_url: str
    api_pid: int

    def forget_peak(self) -> None:
        """Measure the peak of memory from now on; Linux only."""
        Path(f"/proc/{self.api_pid}/clear_refs").write_text("5")

    def memory_mb(self, field: str) -> float:
        """Memory of the API: VmRSS, what it has; VmHWM, the most that it had."""
        status = Path(f"/proc/{self.api_pid}/status").read_text(encoding="utf-8")
        found = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
        if found is None:
            raise OSError(f"/proc/{self.api_pid}/status has no {field}")
        return int(found[1]) * 1024 / 1e6


@contextmanager
def running(folder: Path) -> Iterator[Service]:
    """A service whose data is kept in ``folder``."""
    postgres = PostgresServer(folder / "postgres", free_port())
    valkey = ValkeyServer(folder / "valkey", free_port())
    for server in (postgres, valkey):
        server.prepare()
    key, port = new_secret(), free_port()
    (folder / "models").mkdir()
    write_private(folder / "key", key + "\n")
    env = {
        "CASTALIA_DATABASE_URL": postgres.url,
        "CASTALIA_BROKER_URL": valkey.url,
        "CASTALIA_MODELS_DIR": str(folder / "models"),
    }
    words = ("api", f"--port={port}", "--migrate", f"--key-file={folder / 'key'}")
    command = (sys.executable, "-P", "-m", "castalia", *words)
    api = Child("api", command, env, ready=lambda: answers(f"http://127.0.0.1:{port}/readyz"))
    with ExitStack() as stack:
        guard = Guard()
        stack.callback(guard.close)
        for child in (postgres.child(), valkey.child()):
            stack.enter_context(living(child, folder, guard))
        life = stack.enter_context(living(api, folder, guard))
        yield Service(port, key, postgres.url, life.pid)


@contextmanager
def living(child: Child, logs: Path, guard: Guard) -> Iterator[Life]:
    """A child from when it is ready to the end of the block."""
    life = Life(child, logs / f"{child.name}.log", guard)
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while child.ready is not None and not child.ready():
            if life.end() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{child.name} did not start: {life.last_lines(5)}")
            time.sleep(0.05)
        yield life
        life.ask_to_stop()
        deadline = time.monotonic() + child.stop_grace_s
        while life.end() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        life.bury()


def answers(url: str) -> bool:
    """Whether somebody serves there."""
    try:
        with urlopen(url, timeout=2):  # noqa: S310 - our own server
            return True
    except (URLError, OSError):
        return False

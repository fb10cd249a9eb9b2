"""The service by its parts, each a process group that can be killed, frozen and kept down alone.

The one idea: `tend` starts again what is not there, as `castalia up` would, so a fault only has to take away.
Clients reach Postgres and Valkey through proxies; `postgres_url` goes straight there, for whoever judges.
"""

import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from benchmarks.chaos.processes import group_members, signal_all, trainers_below
from benchmarks.chaos.proxy import Proxy
from benchmarks.chaos.quota import Quota
from benchmarks.chaos.settings import EVERYWHERE, JANITOR_STARTS_S, START_LIMIT_S
from castalia.child import Child, Life
from castalia.embedded.postgres import PostgresServer
from castalia.embedded.secret import write_private
from castalia.embedded.valkey import ValkeyServer
from castalia.guard import Guard
from castalia.ports import free_port
from core.store.keys import new_secret


@dataclass(slots=True)
class Part:
    """A child that is kept running, except until `down_until`. `before` clears the way for it."""

    child: Child
    before: Callable[[], object] = lambda: None
    life: Life | None = None
    down_until: float = 0.0


class System:
    """A running service in `folder`, with base models in `models`. Ends, all of it, with the block.

    `settings` are CASTALIA_ variables beyond those that say where everything is.
    """

    def __init__(self, folder: Path, models: Path, settings: Mapping[str, str]) -> None:
        for name in ("logs", "runs"):
            (folder / name).mkdir()
        self.runs, self.logs = folder / "runs", folder / "logs"
        self.key, self.port = new_secret(), free_port()
        self.quota = Quota(folder / "artifacts")
        self.calm_since = 0.0
        self._folder = folder
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._servers(models, settings)

    def __enter__(self) -> Self:
        self._guard = Guard()
        try:
            for name in self.parts:
                self._start(name)
                self._wait_until_ready(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for part in self.parts.values():
            self._bury(part)
        self._guard.close()
        for proxy in self.proxies.values():
            proxy.close()
        self.quota.close()

    @property
    def url(self) -> str:
        """Of the API."""
        return f"http://127.0.0.1:{self.port}"

    def tend(self) -> None:
        """Do what is due, and start what is not there."""
        now = time.monotonic()
        due = [action for at, action in self._later if at <= now]
        self._later = [(at, action) for at, action in self._later if at > now]
        for action in due:
            action()
        for name, part in self.parts.items():
            if part.life is not None and part.life.end() is not None:
                self._bury(part)
            if part.life is None and now >= part.down_until:
                self._start(name)

    def kill(self, name: str, down_s: float = 0.0) -> None:
        """SIGKILL the whole group; it comes back after `down_s`."""
        part = self.parts[name]
        part.down_until = time.monotonic() + down_s
        self._bury(part)
        if name in {"postgres", "janitor"}:
            self.disturb(down_s)

    def stop(self, name: str, down_s: float) -> None:
        """Send its stop signal; it comes back after `down_s`, or when it has ended."""
        part = self.parts[name]
        part.down_until = time.monotonic() + down_s
        if part.life is not None:
            part.life.ask_to_stop()
        if name == "postgres":
            self.disturb(down_s)

    def freeze(self, pids: list[int], seconds: float) -> None:
        """SIGSTOP processes, and SIGCONT them later."""
        signal_all(pids, signal.SIGSTOP)
        self.later(seconds, lambda: signal_all(pids, signal.SIGCONT))

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Have `tend` do something."""
        self._later.append((time.monotonic() + seconds, action))

    def disturb(self, seconds: float) -> None:
        """Whoever takes leases back cannot do so until then, and begins to watch anew."""
        end = time.monotonic() + seconds + JANITOR_STARTS_S
        self.calm_since = max(self.calm_since, end)

    def group(self, name: str) -> list[int]:
        """The processes of a part; empty while it is down."""
        life = self.parts[name].life
        return [] if life is None else group_members(life.pid)

    def trainers(self) -> dict[int, str]:
        """Every running trainer's process, and the job that it trains."""
        return trainers_below(self.runs)

    def _servers(self, models: Path, settings: Mapping[str, str]) -> None:
        postgres = PostgresServer(self._folder / "postgres", free_port())
        valkey = ValkeyServer(self._folder / "valkey", free_port())
        postgres.prepare()
        valkey.prepare()
        self.postgres_url, self.broker_url = postgres.url, valkey.url
        self.proxies = {"postgres": Proxy(postgres.port), "valkey": Proxy(valkey.port)}
        key_file = self._folder / "key"
        write_private(key_file, self.key + "\n")
        env = {
            **EVERYWHERE,
            **settings,
            "CASTALIA_DATABASE_URL": _through(
                self.proxies["postgres"], postgres.url, postgres.port
            ),
            "CASTALIA_BROKER_URL": _through(self.proxies["valkey"], valkey.url, valkey.port),
            "CASTALIA_ARTIFACTS_URL": self.quota.url,
            "CASTALIA_MODELS_DIR": str(models),
            "CASTALIA_RUNS_DIR": str(self.runs),
            "CASTALIA_CACHE_DIR": str(self.runs.with_name("cache")),
        }
        api = ("api", f"--port={self.port}", "--migrate", f"--key-file={key_file}")
        self.parts = {
            "postgres": Part(postgres.child(), postgres.prepare),
            "valkey": Part(valkey.child()),
            "api": Part(_castalia("api", api, env, ready=self._api_answers)),
            "prepare": Part(_castalia("prepare", ("worker", "--queue=prepare"), env)),
            "worker-all": Part(_castalia("worker-all", ("worker", "--queue=all"), env)),
            "worker-train": Part(_castalia("worker-train", ("worker", "--queue=train"), env)),
            "janitor": Part(_castalia("janitor", ("janitor",), env)),
        }

    def _bury(self, part: Part) -> None:
        life, part.life = part.life, None
        if life is not None:
            life.bury()

    def _start(self, name: str) -> None:
        part = self.parts[name]
        part.before()
        part.life = Life(part.child, self.logs / f"{name}.log", self._guard)

    def _wait_until_ready(self, name: str) -> None:
        part = self.parts[name]
        deadline = time.monotonic() + START_LIMIT_S
        while part.child.ready is not None and not part.child.ready():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} did not start; see {self.logs}")
            time.sleep(0.1)

    def _api_answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/readyz", timeout=2):  # noqa: S310 - our own API
                return True
        except (URLError, OSError):
            return False


def _castalia(
    name: str, words: tuple[str, ...], env: dict[str, str], ready: Callable[[], bool] | None = None
) -> Child:
    return Child(name, (sys.executable, "-P", "-m", "castalia", *words), env, ready)


def _through(proxy: Proxy, url: str, port: int) -> str:
    return url.replace(f":{port}/", f":{proxy.port}/")

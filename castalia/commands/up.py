"""`castalia up`: the whole service on one machine, in one data folder, under one supervisor.

Postgres and Valkey are embedded unless the environment names servers. All children end with this command;
a child that crashes is reported and started again.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from urllib.error import URLError
from urllib.request import urlopen

import typer

from castalia.child import Child
from castalia.data_folder import DataFolder, open_data_folder
from castalia.embedded.postgres import PostgresServer
from castalia.embedded.secret import write_private
from castalia.embedded.valkey import ValkeyServer
from castalia.ports import check_port, free_port
from castalia.supervisor import Supervisor, say_on_console
from core.store.keys import new_secret

DEFAULT_DATA = Path("castalia-data")
KEY_FILE = "api_key"
DATABASE_URL = "CASTALIA_DATABASE_URL"
BROKER_URL = "CASTALIA_BROKER_URL"
WORKER_GRACE_S = 100.0  # a trainer may take 60, and the store 30
READY_TIMEOUT_S = 2


def up(
    data: Annotated[Path, typer.Option(help="Everything is kept here.")] = DEFAULT_DATA,
    host: Annotated[str, typer.Option(help="Address of the API.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the API.")] = 8000,
    models: Annotated[
        Path | None, typer.Option(help="Folder of base models; else DATA/models.")
    ] = None,
    chat: Annotated[
        bool, typer.Option(envvar="CASTALIA_CHAT", help="Let models be talked to.")
    ] = False,
) -> None:
    """Run everything on this machine until Ctrl-C."""
    check_port(host, port)
    with open_data_folder(data) as folder:
        key_file = _key_file(folder)
        servers, env = _servers(folder)
        env |= {
            "CASTALIA_MODELS_DIR": str((models or folder.models).absolute()),
            "CASTALIA_RUNS_DIR": str(folder.runs),
            "CASTALIA_CACHE_DIR": str(folder.cache),
            "CASTALIA_CHAT": str(chat).lower(),
        }
        children = [*servers, *_processes(env, host, port, key_file)]
        if chat:
            children.append(Child("chat", _castalia("worker", "--queue=chat"), env))
        raise typer.Exit(Supervisor(children, folder.logs, (folder.lock_fd,)).run())


def _servers(folder: DataFolder) -> tuple[list[Child], dict[str, str]]:
    """The embedded servers that are needed, and where all servers are."""
    children = []
    env = {name: os.environ[name] for name in (DATABASE_URL, BROKER_URL) if name in os.environ}
    if DATABASE_URL not in env:
        postgres = PostgresServer(folder.postgres, free_port())
        postgres.prepare()
        children.append(postgres.child())
        env[DATABASE_URL] = postgres.url
    if BROKER_URL not in env:
        valkey = ValkeyServer(folder.valkey, free_port())
        valkey.prepare()
        children.append(valkey.child())
        env[BROKER_URL] = valkey.url
    return children, env


def _processes(env: dict[str, str], host: str, port: int, key_file: Path) -> Iterator[Child]:
    """Castalia's own processes; the API migrates before it serves, so it comes first."""
    url = f"http://{host}:{port}"
    yield Child(
        "api",
        _castalia("api", "--host", host, f"--port={port}", "--migrate", f"--key-file={key_file}"),
        env,
        ready=lambda: _answers(f"{url}/readyz"),
        where=f"{url}/v1  (key in {key_file})",
    )
    yield Child("prepare", _castalia("worker", "--queue=prepare"), env)
    yield Child("train", _castalia("worker", "--queue=train"), env, stop_grace_s=WORKER_GRACE_S)
    yield Child("janitor", _castalia("janitor"), env)


def _castalia(*arguments: str) -> tuple[str, ...]:
    # -P: the folder in which the user stands must not be able to shadow our packages.
    return (sys.executable, "-P", "-m", "castalia", *arguments)


def _key_file(folder: DataFolder) -> Path:
    """The file with the bootstrap key, which is printed when it is made."""
    path = folder.secrets / KEY_FILE
    if not path.exists():
        secret = new_secret()
        write_private(path, secret + "\n")
        say_on_console(f"API key (shown once, kept in {path}): {secret}")
    return path


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=READY_TIMEOUT_S) as answer:  # noqa: S310 - our own API
            return bool(answer.status == 200)  # noqa: PLR2004
    except (URLError, OSError):
        return False

"""Real servers for every test that needs one, embedded and started once; and a toy model."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import psycopg
import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import make_url

import migrations
from api.app import create_app
from api.serve import server_options
from api.settings import ApiSettings
from castalia.child import Child, Life
from castalia.embedded.postgres import PostgresServer
from castalia.embedded.valkey import ValkeyServer
from castalia.guard import Guard
from castalia.ports import free_port
from core.store.blobs import Blob, PostgresBlobs
from core.store.database import Database
from core.store.files import add_file, set_prepared
from core.store.keys import create_key, new_secret, project_named

START_LIMIT_S = 60
TEMPLATE = "castalia_template"
_numbers = count()


@pytest.fixture(scope="session")
def guard() -> Iterator[Guard]:
    """Ends the servers even if the test run is killed."""
    guard = Guard()
    yield guard
    guard.close()


@pytest.fixture(scope="session")
def postgres_url(guard, tmp_path_factory) -> Iterator[str]:
    """A server whose database TEMPLATE has the newest schema."""
    server = PostgresServer(tmp_path_factory.mktemp("postgres"), free_port())
    server.prepare()
    with _running(server.child(), guard, server.data_dir.parent):
        # Nothing here has to survive a crash of the machine.
        _execute(server.url, "alter system set fsync = off")
        _execute(server.url, "select pg_reload_conf()")
        _execute(server.url, f"create database {TEMPLATE}")
        database = Database(_on(server.url, TEMPLATE))
        migrations.upgrade(database.engine)
        database.close()
        yield server.url


@pytest.fixture(scope="session")
def broker_url(guard, tmp_path_factory) -> Iterator[str]:
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"), free_port())
    server.prepare()
    with _running(server.child(), guard, server.data_dir.parent):
        yield server.url


@pytest.fixture
def empty_database_url(postgres_url) -> str:
    """A database without any table."""
    return _new_database(postgres_url, "template0")


@pytest.fixture
def database_url(postgres_url) -> str:
    """A database of this test's own, with the schema and no rows."""
    return _new_database(postgres_url, TEMPLATE)


@pytest.fixture
def database(database_url) -> Iterator[Database]:
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def project(database) -> str:
    """The id of a project."""
    with database.begin() as session:
        return project_named(session, "default").id


@pytest.fixture
def secret(database) -> str:
    """A key that opens `project`."""
    secret = new_secret()
    with database.begin() as session:
        create_key(session, project_named(session, "default"), "test", secret)
    return secret


@pytest.fixture
def blobs(database) -> PostgresBlobs:
    return PostgresBlobs(database, piece_bytes=1024)


@pytest.fixture
def training_file(database, blobs, project):
    """Makes a training file with this content, checked already unless told otherwise."""

    def make(content: bytes = b"{}\n", *, prepared: bool = True) -> str:
        blob: Blob = blobs.write([content])
        with database.begin() as session:
            row = add_file(session, project, filename="t.jsonl", purpose="fine-tune", blob=blob)
            if prepared:
                set_prepared(session, row.id, ok=True, details=None, report={})
        return row.id

    return make


@pytest.fixture(scope="session")
def toy_model(toy_models_dir) -> Path:
    """The folder of a Llama of two layers that reads bytes."""
    return toy_models_dir / "toy"


@pytest.fixture(scope="session")
def toy_models_dir(tmp_path_factory) -> Path:
    """A folder of base models; it holds `toy`."""
    from castalia.toy_model import make_toy_model

    folder: Path = tmp_path_factory.mktemp("models")
    make_toy_model(folder / "toy")
    return folder


@pytest.fixture(scope="session")
def chat_lines() -> Callable[[int], bytes]:
    """Makes this many rows of a chat file; no two alike, each of 30 to 50 of the toy model's tokens."""

    def row(number: int) -> bytes:
        question, answer = f"{number} {'x' * (number % 7)}?", "ab" * (1 + number % 5)
        turns = [("user", question), ("assistant", answer)]
        messages = [{"role": role, "content": content} for role, content in turns]
        return json.dumps({"messages": messages}).encode() + b"\n"

    return lambda count: b"".join(map(row, range(count)))


class _Service:
    """The real API over the real database, in a thread; ``url`` stays when it is started again.

    ``extend`` may give the application routes of the test's own.
    """

    def __init__(
        self, settings: ApiSettings, extend: Callable[[FastAPI], None] = lambda _: None
    ) -> None:
        self._settings = settings
        self._extend = extend
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        app = create_app(self._settings)
        self._extend(app)
        config = uvicorn.Config(app, port=self.port, **server_options(self._settings))
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        deadline = time.monotonic() + START_LIMIT_S
        while not self._server.started:
            assert time.monotonic() < deadline, "the API did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


def _serving() -> Iterator[Callable[..., _Service]]:
    """Serves the real API for these settings, on a port of its own, to the end of the test."""
    started: list[_Service] = []

    def start(settings: ApiSettings, **more: Callable[[FastAPI], None]) -> _Service:
        started.append(_Service(settings, **more))
        started[-1].start()
        return started[-1]

    yield start
    for service in started:
        service.stop()


serve = pytest.fixture(_serving)
serve_module = pytest.fixture(_serving, scope="module")
"""The same, to the end of the module."""


class Receiver:
    """A real HTTP server on loopback that webhooks are sent to."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        """Headers in small letters, and the body."""
        self.answers: list[tuple[int, dict[str, str]]] = []
        """What the next requests are answered with; then 200."""
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # senders hang up
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(receiver) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - two selves
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append((headers, body))
                receiver.may_answer.wait()
                status, more = receiver.answers.pop(0) if receiver.answers else (200, {})
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def new_receiver() -> Iterator[Callable[..., Receiver]]:
    """Makes receivers of webhooks."""
    opened: list[Receiver] = []

    def make(tls: ssl.SSLContext | None = None) -> Receiver:
        opened.append(Receiver(tls))
        return opened[-1]

    yield make
    for receiver in opened:
        receiver.close()


@pytest.fixture
def receiver(new_receiver) -> Receiver:
    return new_receiver()


class _running:  # noqa: N801 - a context manager
    def __init__(self, child: Child, guard: Guard, logs: Path) -> None:
        self._child = child
        self._life = Life(child, logs / f"{child.name}.log", guard)

    def __enter__(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while not self._child.ready():
            assert time.monotonic() < deadline, self._life.last_lines(10)
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        self._life.ask_to_stop()
        deadline = time.monotonic() + self._child.stop_grace_s
        while self._life.end() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        self._life.bury()


def _new_database(url: str, template: str) -> str:
    name = f"test_{next(_numbers)}"
    _execute(url, f"create database {name} template {template}")
    return _on(url, name)


def _execute(url: str, statement: str) -> None:
    plain = url.replace("postgresql+psycopg://", "postgresql://", 1)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(statement)


def _on(url: str, name: str) -> str:
    return make_url(url).set(database=name).render_as_string(hide_password=False)

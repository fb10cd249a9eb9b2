"""A connection on which nothing moves is ended; one that waits for us is not.

The server's own turns are too long to come; a turn ends here when a test says so.
"""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
import uvicorn

from api.serve import server_options
from core.store.blobs import PostgresBlobs
from core.store.files import add_file

PATIENCE_S = 3600.0
SLOWEST_BYTES_S = 1.0
ENOUGH = PATIENCE_S * SLOWEST_BYTES_S
LIMIT_S = 30.0
LARGE = 24 * 2**20
HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


class Line:
    """A server, one connection to it, and the protocol at its other end."""

    def __init__(self, server: uvicorn.Server, address: tuple[str, int]) -> None:
        self.server = server
        self.loop = server.loop_of_the_test
        known = set(server.server_state.connections)
        self.socket = socket.create_connection(address, timeout=LIMIT_S)
        wait_until(lambda: set(server.server_state.connections) - known)
        (self.there,) = set(server.server_state.connections) - known

    def send(self, content: bytes) -> None:
        """Sends, and returns when it was heard."""
        before = self.there._heard_bytes
        self.socket.sendall(content)
        wait_until(lambda: self.there._heard_bytes >= before + len(content))

    def end_turn(self) -> None:
        done: Future[None] = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(self.there.look()))
        done.result(LIMIT_S)

    def rest(self) -> bytes:
        """Everything until the server hangs up."""
        said = b""
        while chunk := self.socket.recv(65536):
            said += chunk
        return said


def wait_until(condition) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(scope="module")
def address_and_server(app, settings) -> Iterator[tuple[tuple[str, int], uvicorn.Server]]:
    patience = {"patience_s": PATIENCE_S, "slowest_bytes_s": SLOWEST_BYTES_S}
    options = server_options(settings.model_copy(update=patience))

    async def with_answers_of_the_test(scope, receive, send) -> None:
        if scope["path"] == "/held":
            await server.let_go.wait()
        if scope["path"] == "/whole":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": bytes(LARGE)})
            return
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(with_answers_of_the_test, lifespan="off", **options))

    def run() -> None:
        async def serve() -> None:
            server.loop_of_the_test, server.let_go = asyncio.get_running_loop(), asyncio.Event()
            await server.serve([listening])

        asyncio.run(serve())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: server.started)
        yield address, server
        server.should_exit = True
        thread.join()


@pytest.fixture
def large_file(database, project) -> str:
    """More than the system's own buffers hold."""
    blob = PostgresBlobs(database).write([b"x" * LARGE])
    with database.begin() as session:
        row = add_file(session, project, filename="f", purpose="user_data", blob=blob)
    return row.id


@pytest.fixture
def line(address_and_server) -> Iterator[Line]:
    address, server = address_and_server
    line = Line(server, address)
    yield line
    line.socket.close()


def refused(said: bytes) -> str:
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head
    return json.loads(body)["error"]["code"]


@pytest.mark.parametrize("begun", [b"", b"GET /heal", HEAD])
def test_a_head_that_is_not_complete_after_a_turn_is_given_up(line, begun):
    line.send(begun)
    line.end_turn()
    assert refused(line.rest()) == "request_too_slow"


def test_a_second_head_that_comes_by_drops_is_given_up_too(line):
    line.send(HEAD + b"\r\n")
    wait_until(lambda: b'"ok"' in line.socket.recv(65536))
    line.send(b"G")
    line.end_turn()
    line.send(b"E")
    line.end_turn()
    assert refused(line.rest()) == "request_too_slow"


def test_a_body_that_stands_still_is_given_up(line, client):
    line.send(post(client, 100_000) + b"x" * 10)
    line.end_turn()
    line.send(b"x" * (int(PATIENCE_S) - 1))
    line.end_turn()
    assert refused(line.rest()) == "request_too_slow"


def test_a_body_that_moves_is_waited_for(line, client):
    body = b'{"model": "' + b"x" * 20_000 + b'"}'
    line.send(post(client, len(body)))
    for start in range(0, len(body), 4000):
        line.end_turn()
        line.send(body[start : start + 4000])
    assert line.socket.recv(65536).startswith(b"HTTP/1.1 400")  # read whole, and understood


def test_a_body_that_waits_to_be_asked_for_is_not_given_up(line):
    line.send(
        b"POST /held HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n"
    )
    line.end_turn()
    line.end_turn()
    line.loop.call_soon_threadsafe(line.server.let_go.set)
    assert line.socket.recv(65536).startswith(b"HTTP/1.1 404 ")


def test_a_reader_that_takes_nothing_is_hung_up_on(line, client, large_file):
    line.send(get(client, large_file))
    wait_until(lambda: line.there.flow.write_paused)
    line.end_turn()
    line.end_turn()
    assert line.there.transport.is_closing()


def take_a_turns_worth(line: Line, remaining: int = LARGE) -> int:
    """Reads until the server notices, for the system's buffers take some first."""
    taken = 0
    unsent = line.there.transport.get_write_buffer_size()
    while taken < remaining and abs(line.there.transport.get_write_buffer_size() - unsent) < ENOUGH:
        taken += len(line.socket.recv(65536))
    return taken


def test_a_reader_that_takes_its_time_gets_everything(line, client, large_file):
    line.send(get(client, large_file))
    taken = 0
    while taken < LARGE:
        wait_until(lambda: line.there.flow.write_paused or line.there.cycle.response_complete)
        line.end_turn()
        taken += take_a_turns_worth(line, LARGE - taken)
    assert not line.there.transport.is_closing()


def test_a_reader_of_the_end_of_an_answer_is_not_asked_for_another_request(line):
    line.send(b"GET /whole HTTP/1.1\r\nhost: x\r\n\r\n")
    wait_until(lambda: line.there.cycle.response_complete)
    assert line.there.transport.get_write_buffer_size() > 2 * ENOUGH
    line.end_turn()
    take_a_turns_worth(line)
    line.end_turn()
    assert not line.there.transport.is_closing()
    line.end_turn()
    assert line.there.transport.is_closing()


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01", b"GET /\x00 HTTP/1.1\r\n\r\n", b"\r\n\r\n: x\r\n\r\n"]
)
def test_what_is_no_http_is_refused_by_the_envelope(line, garbage):
    line.socket.sendall(garbage)
    head, _, body = line.rest().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "invalid_http"
    assert b"x-request-id: req_" in head


@pytest.mark.parametrize(("method", "told"), [(b"POST", True), (b"HEAD", False)])
def test_a_broken_body_is_refused_once(line, client, method, told):
    head = post(client, 1).replace(b"content-length: 1", b"transfer-encoding: chunked")
    line.socket.sendall(head.replace(b"POST", method) + b"zz\r\n")
    said = line.rest()
    assert said.count(b"HTTP/1.1 ") == 1
    assert said.startswith(b"HTTP/1.1 400 ")
    assert bool(said.partition(b"\r\n\r\n")[2]) is told


def test_turns_end_by_themselves(serve, settings):
    service = serve(settings.model_copy(update={"patience_s": 0.2}))
    with socket.create_connection(("127.0.0.1", service.port), timeout=LIMIT_S) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")


def post(client, length: int) -> bytes:
    key = client.headers["authorization"]
    head = f"POST /v1/fine_tuning/jobs HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n".encode()


def get(client, file_id: str) -> bytes:
    key = client.headers["authorization"]
    path = f"/v1/files/{file_id}/content"
    return f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: {key}\r\n\r\n".encode()

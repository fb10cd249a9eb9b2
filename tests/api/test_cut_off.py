"""An upload that is cut off half-way leaves nothing, over a real socket."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from sqlalchemy import func, select

from core.store.tables import BlobPieceRow, BlobRow, FileRow

DECLARED = 200_000
PATIENCE_S = 10


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def address(listening) -> tuple[str, int]:
    return listening.getsockname()


@pytest.fixture
def server(app, listening) -> Iterator[uvicorn.Server]:
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="error"))
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    yield server
    server.should_exit = True
    thread.join()


@pytest.fixture
def kept(database):
    def counts() -> list[int]:
        with database.begin() as session:
            tables = (FileRow, BlobRow, BlobPieceRow)
            return [session.scalar(select(func.count()).select_from(table)) for table in tables]

    return counts


def request(client, content: bytes, length: int = DECLARED) -> bytes:
    key = client.headers["authorization"]
    head = (
        "POST /v1/files HTTP/1.1\r\nhost: x\r\n"
        f"authorization: {key}\r\ncontent-length: {length}\r\n"
        "content-type: multipart/form-data; boundary=x\r\n\r\n"
        '--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nfine-tune\r\n'
        '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n'
    )
    return head.encode() + content


def test_half_an_upload_leaves_nothing(server, address, client, kept):
    before = kept()
    with socket.create_connection(address) as connection:
        connection.sendall(request(client, b"x" * (DECLARED // 2)))
    _settle(server, address)
    assert kept() == before


def test_an_upload_that_is_shut_for_writing_leaves_nothing(server, address, client, kept):
    before = kept()
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(request(client, b"x" * 10))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1000)
    _settle(server, address)
    assert kept() == before


@pytest.mark.usefixtures("server")
def test_the_same_upload_in_one_piece_is_kept(address, client, kept):
    files, blobs, _ = kept()
    form = request(client, b"{}\n\r\n--x--\r\n", 0)
    body = form.partition(b"\r\n\r\n")[2]
    whole = form.replace(b"content-length: 0", f"content-length: {len(body)}".encode())
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(whole)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert kept()[:2] == [files + 1, blobs + 1]


def _settle(server: uvicorn.Server, address: tuple[str, int]) -> None:
    """Return when the server has read what was sent before and works on no request any more."""
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    deadline = time.monotonic() + PATIENCE_S
    while server.server_state.tasks:
        assert time.monotonic() < deadline
        time.sleep(0.01)

"""The line that chaos cuts: it carries bytes both ways until it is told otherwise."""

import socket
import threading
import time

import pytest

from benchmarks.chaos.proxy import HOST, Proxy


@pytest.fixture
def proxy():
    """To a server that says everything twice."""
    server = socket.create_server((HOST, 0))

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    def echo(connection):
        with connection:
            while piece := connection.recv(1024):
                connection.sendall(piece * 2)

    threading.Thread(target=serve, daemon=True).start()
    proxy = Proxy(server.getsockname()[1])
    yield proxy
    proxy.close()
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.fixture
def line(proxy):
    with socket.create_connection((HOST, proxy.port), timeout=10) as line:
        line.sendall(b"a")
        assert line.recv(2) == b"aa"
        yield line


def test_a_cut_line_is_closed_and_a_new_one_is_taken(proxy, line):
    proxy.cut()
    assert line.recv(1) == b""
    with socket.create_connection((HOST, proxy.port), timeout=10) as other:
        other.sendall(b"b")
        assert other.recv(2) == b"bb"


def test_a_half_closed_line_says_no_more(proxy, line):
    proxy.half_close()
    assert line.recv(1) == b""
    line.sendall(b"still taken")


def test_a_refused_line_is_closed_at_once(proxy):
    proxy.refusing = True
    with socket.create_connection((HOST, proxy.port), timeout=10) as line:
        assert line.recv(1) == b""


def test_a_delayed_line_waits_both_ways(proxy, line):
    proxy.delay_s = 0.1
    began = time.monotonic()
    line.sendall(b"c")
    assert line.recv(2) == b"cc"
    assert time.monotonic() - began >= 0.2

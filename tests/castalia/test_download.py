"""A download goes on where it stopped, and only content with the right hash gets its name."""

import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from castalia.client import Client, ServiceUnreachableError
from castalia.download import TRIES_WITHOUT_PROGRESS, HashMismatchError, download

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def fetch(client, stored_file, tmp_path):
    """Fetches a stored file; the target and the numbers of bytes that arrived."""

    def do(content=CONTENT, sha256=None):
        arrived = []
        target = tmp_path / "out" / "f"
        expected = sha256 or hashlib.sha256(content).hexdigest()
        download(client, stored_file(content), target, expected, arrived.append)
        return target, arrived

    return do


@pytest.fixture
def partial(tmp_path):
    path = tmp_path / "out" / "f.partial"
    path.parent.mkdir()
    return path


@pytest.mark.parametrize("content", [CONTENT, b"", b"x"])
def test_a_file_arrives_whole(fetch, content):
    target, arrived = fetch(content)
    assert target.read_bytes() == content
    assert sum(arrived) == len(content)
    assert list(target.parent.iterdir()) == [target]


def test_what_has_arrived_is_not_fetched_again(fetch, partial):
    partial.write_bytes(CONTENT[:9000])
    target, arrived = fetch()
    assert target.read_bytes() == CONTENT
    assert (arrived[0], sum(arrived[1:])) == (9000, len(CONTENT) - 9000)


def test_a_partial_that_is_all_there_only_gets_its_name(fetch, partial):
    partial.write_bytes(CONTENT)
    target, arrived = fetch()
    assert target.read_bytes() == CONTENT
    assert arrived == [len(CONTENT)]


def test_a_file_that_is_there_already_is_not_fetched(fetch, partial):
    target = partial.with_name("f")
    target.write_bytes(CONTENT)
    before = target.stat().st_mtime_ns
    assert fetch() == (target, [len(CONTENT)])
    assert target.stat().st_mtime_ns == before


def test_a_damaged_beginning_is_found_and_thrown_away(fetch, partial):
    partial.write_bytes(b"damaged")
    with pytest.raises(HashMismatchError, match="f arrived damaged: run the command again"):
        fetch()
    assert list(partial.parent.iterdir()) == []


def test_another_content_than_was_announced_is_refused(fetch, tmp_path):
    with pytest.raises(HashMismatchError):
        fetch(sha256="0" * 64)
    assert list((tmp_path / "out").iterdir()) == []


class Cutting(BaseHTTPRequestHandler):
    """Serves CONTENT, cutting each answer after as many bytes as the server's ``sends``."""

    def do_GET(self):
        if not self.path.endswith("/content"):
            return self._answer(200, json.dumps({"bytes": len(CONTENT)}).encode())
        self.server.asked += 1
        assert self.headers["accept-encoding"] == "identity"
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", ""))
        rest = CONTENT[int(match[1]) :] if match else CONTENT
        return self._answer(206 if match else 200, rest, self.server.sends)

    def _answer(self, status, content, sends=None):
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:sends])

    def log_message(self, *_):
        pass


@pytest.fixture
def cutting():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Cutting)
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    with Client(f"http://127.0.0.1:{server.server_port}", "k") as server.client:
        yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_line_that_is_cut_again_and_again_is_outlived(cutting, tmp_path):
    cutting.sends = 1000
    download(cutting.client, "file-x", tmp_path / "f", SHA256, lambda _: None)
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert cutting.asked == -(-len(CONTENT) // 1000)


def test_a_line_that_brings_nothing_is_given_up(cutting, tmp_path):
    cutting.sends = 0
    with pytest.raises(ServiceUnreachableError):
        download(cutting.client, "file-x", tmp_path / "f", SHA256, lambda _: None)
    assert cutting.asked == TRIES_WITHOUT_PROGRESS

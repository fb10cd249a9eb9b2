"""A large file into the service and out of it again.

The content is one random MiB again and again, so what comes back can be compared at the speed of memory.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

from benchmarks.api.service import MIB, Service

CHUNK = os.urandom(MIB)
BOUNDARY = "castalia-benchmark"
PATIENCE_S = 600


class WrongAnswer(Exception):
    """What came back is not what was asked for."""


def upload(service: Service, mib: int) -> tuple[str, float]:
    """Send a file of so many MiB; its id, and MB/s."""
    head = (
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="file"; filename="big.bin"\r\n\r\n'
    ).encode()
    tail = f"\r\n--{BOUNDARY}--\r\n".encode()
    headers = {
        **_key(service),
        "content-type": f"multipart/form-data; boundary={BOUNDARY}",
        "content-length": str(len(head) + mib * MIB + len(tail)),
    }

    def body() -> Iterator[bytes]:
        yield head
        for _ in range(mib):
            yield CHUNK
        yield tail

    with _connection(service.port) as http:
        began = time.perf_counter()
        http.request("POST", "/v1/files", body(), headers)
        file = _decoded(http)
        seconds = time.perf_counter() - began
    if file["bytes"] != mib * MIB:
        raise WrongAnswer(f"{file['bytes']} bytes were kept of {mib * MIB}")
    return file["id"], mib * MIB / 1e6 / seconds


def download(service: Service, file_id: str, mib: int, *, range_mib: int | None = None) -> float:
    """Fetch a file whole, or range by range over one connection; MB/s."""
    path = f"/v1/files/{file_id}/content"
    return fetch(service.port, path, _key(service), mib, range_mib or mib)


def delete(service: Service, file_id: str) -> None:
    """Have a file forgotten."""
    with _connection(service.port) as http:
        http.request("DELETE", f"/v1/files/{file_id}", headers=_key(service))
        _decoded(http)


def fetch(port: int, path: str, headers: dict[str, str], mib: int, range_mib: int) -> float:
    """GET in so many ranges; MB/s. Raises WrongAnswer for any byte that is not as it was sent."""
    began = time.perf_counter()
    with _connection(port) as http:
        for first in range(0, mib, range_mib):
            last = min(first + range_mib, mib)
            ranged = {} if range_mib >= mib else {"range": f"bytes={first * MIB}-{last * MIB - 1}"}
            http.request("GET", path, headers={**headers, **ranged})
            _compare(http, last - first)
    return mib * MIB / 1e6 / (time.perf_counter() - began)


def _compare(http: HTTPConnection, mib: int) -> None:
    answer = http.getresponse()
    if answer.status not in (200, 206):
        raise WrongAnswer(f"{answer.status}: {answer.read()[:200]!r}")
    content = bytearray(MIB)  # compared as it is: a view would be compared byte by byte
    buffer = memoryview(content)
    for _ in range(mib):
        filled = 0
        while filled < MIB and (got := answer.readinto(buffer[filled:])):
            filled += got
        if content != CHUNK:
            raise WrongAnswer("other bytes came back")
    if answer.read(1):
        raise WrongAnswer("more bytes came back than were asked for")


def _decoded(http: HTTPConnection) -> dict[str, Any]:
    answer = http.getresponse()
    content = answer.read()
    if answer.status != HTTPStatus.OK:
        raise WrongAnswer(f"{answer.status}: {content[:200]!r}")
    found: dict[str, Any] = json.loads(content)
    return found


def _key(service: Service) -> dict[str, str]:
    return {"authorization": f"Bearer {service.key}"}


@contextmanager
def _connection(port: int) -> Iterator[HTTPConnection]:
    http = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        yield http
    finally:
        http.close()

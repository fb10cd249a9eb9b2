"""5,000 hostile requests over bare sockets: no fault of ours, nothing told, nothing of others changed."""

import asyncio
import importlib.util
import json
import logging
import re
from collections import Counter
from pathlib import Path

import pytest

from api.hygiene import SECURITY_HEADERS
from core.store.files import add_file

SPEC = importlib.util.spec_from_file_location("hostile", Path(__file__).with_name("hostile.py"))
hostile = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hostile)

REQUESTS = 5_000
AT_ONCE = 48
LIMIT_S = 60.0
SECRETS = ["their-file-name", "their-content", "their-tag"]
TRACES = [
    "Traceback",
    'File "',
    "site-packages",
    "sqlalchemy",
    "psycopg",
    "pydantic",
    str(Path.cwd()),
]
STATUS = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) [^\r\n]*\r\n(.*?)\r\n\r\n", re.DOTALL)


@pytest.fixture
def theirs(client, database, project, blobs, body):
    """Ids of another project's file, upload and job, which name secrets."""
    blob = blobs.write([b"their-content"])
    with database.begin() as session:
        file = add_file(
            session, project, filename="their-file-name", purpose="user_data", blob=blob
        )
    job = client.post("/v1/fine_tuning/jobs", json={**body, "metadata": {"a": "their-tag"}}).json()
    new = {"filename": "their-file-name", "purpose": "user_data", "bytes": 9, "mime_type": "x"}
    upload = client.post("/v1/uploads", json=new).json()
    return [file.id, job["id"], upload["id"], body["training_file"]]


async def exchange(address: tuple[str, int], request: bytes) -> bytes:
    """What comes back until the server hangs up."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(request)
        return await asyncio.wait_for(reader.read(), LIMIT_S)
    except ConnectionError:
        return b""  # hung up on in the middle of our sending
    finally:
        writer.close()


async def exchange_all(address, requests) -> list[bytes]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(request: bytes) -> bytes:
        async with places:
            return await exchange(address, request)

    return await asyncio.gather(*map(one, requests))


@pytest.mark.slow
def test_a_stranger_gets_nowhere(serve, settings, client, stranger, theirs, caplog):
    changes = {"patience_s": 1.0, "slowest_bytes_s": 10.0, "requests_per_minute": 0}
    service = serve(settings.model_copy(update=changes))
    key = stranger.headers["authorization"]
    before = state_of(client)
    attacker = hostile.Attacker(key, theirs)
    requests = [attacker.request(number) for number in range(REQUESTS)]
    with caplog.at_level(logging.INFO):
        answers = asyncio.run(exchange_all(("127.0.0.1", service.port), requests))
    seen: Counter[int] = Counter()
    for request, answer in zip(requests, answers, strict=True):
        seen.update(check(request, answer, key))
    assert {200, 400, 401, 404, 405, 413} <= seen.keys(), seen
    assert sum(seen.values()) > 0.9 * REQUESTS
    assert state_of(client) == before
    check_log(caplog, key)


def check(request: bytes, answer: bytes, key: str) -> list[int]:
    """The statuses of an answer that is as it should be."""
    text = answer.decode(errors="replace")
    told = [word for word in [*SECRETS, *TRACES, key.removeprefix("Bearer ")] if word in text]
    assert not told, (request[:2000], text[:2000])
    statuses = []
    for found in STATUS.finditer(answer):
        status, head = int(found[1]), found[2].decode("latin-1")
        statuses.append(status)
        assert status < 500, (request[:2000], text)
        headers = dict(line.split(": ", 1) for line in head.split("\r\n"))
        assert hostile.MARK not in {word for pair in headers.items() for word in pair}
        assert SECURITY_HEADERS.keys() <= headers.keys(), head
        assert re.fullmatch(r"req_\w+", headers["x-request-id"])
        assert "server" not in headers
    if len(statuses) == 1 and status >= 400 and not request.startswith(b"HEAD"):
        error = json.loads(answer[found.end() :])["error"]
        assert {"message", "type", "param", "code"} <= error.keys()
    return statuses


def check_log(caplog, key: str) -> None:
    for record in caplog.records:
        line = record.getMessage()
        assert record.levelno < logging.ERROR, (line, record.exc_text)
        assert key.removeprefix("Bearer ") not in line
        if record.name == "api.access":
            assert line.isascii()
            assert line.isprintable(), line


def state_of(client) -> list[object]:
    paths = ["/v1/files", "/v1/fine_tuning/jobs", "/v1/models"]
    return [client.get(path).json() for path in paths]

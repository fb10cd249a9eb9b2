"""A download can go on where it stopped, and only if it is still the same file."""

import hashlib

import pytest

CONTENT = bytes(range(256)) * 40
ETAG = f'"{hashlib.sha256(CONTENT).hexdigest()}"'
LAST = len(CONTENT) - 1


@pytest.fixture
def get(client, training_file):
    path = f"/v1/files/{training_file(CONTENT)}/content"

    def do(method: str = "GET", **headers: str):
        return client.request(method, path, headers=headers)

    return do


def test_the_whole_is_told_by_its_headers(get):
    answer = get()
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["etag"] == ETAG
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["accept-ranges"] == "bytes"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-", 1000, len(CONTENT)),
        ("bytes=1023-1024", 1023, 1025),
        ("bytes=-1", LAST, len(CONTENT)),
        (f"bytes=5-{10**17}", 5, len(CONTENT)),
        (f"bytes={LAST}-", LAST, len(CONTENT)),
    ],
)
def test_one_range_is_that_part(get, asked, start, stop):
    answer = get(range=asked)
    assert (answer.status_code, answer.content) == (206, CONTENT[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(CONTENT)}"
    assert answer.headers["content-length"] == str(stop - start)


@pytest.mark.parametrize(
    "asked",
    [
        "bytes=0-",
        f"bytes=-{10**9}",
        "bytes=0-1,3-4",
        "bytes=a-b",
        "bytes=-",
        "bytes",
        "items=0-1",
        "",
        "bytes=" + "9" * 5000 + "-",
    ],
)
def test_what_is_not_one_range_is_answered_with_everything(get, asked):
    answer = get(range=asked)
    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize("asked", [f"bytes={len(CONTENT)}-", "bytes=-0", "bytes=7-6"])
def test_a_range_beyond_the_end_is_refused_with_the_length(get, asked):
    answer = get(range=asked)
    assert (answer.status_code, answer.json()["error"]["code"]) == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(CONTENT)}"


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_weights_are_never_compressed(get, method):
    answer = get(method, **{"accept-encoding": "gzip, br, zstd, *;q=1"})
    assert "content-encoding" not in answer.headers
    assert answer.headers["content-length"] == str(len(CONTENT))


def test_a_range_holds_only_for_the_same_file(get):
    same = get(range="bytes=10-19", **{"if-range": ETAG})
    changed = get(range="bytes=10-19", **{"if-range": '"another"'})
    assert (same.status_code, same.content) == (206, CONTENT[10:20])
    assert (changed.status_code, changed.content) == (200, CONTENT)


@pytest.mark.parametrize("headers", [{}, {"range": "bytes=10-19"}])
def test_head_tells_of_the_whole_and_sends_nothing(get, headers):
    answer = get("HEAD", **headers)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["etag"] == ETAG


def test_a_cut_download_can_be_put_together(get):
    first = get(range="bytes=0-4999").content
    rest = get(range="bytes=5000-", **{"if-range": ETAG}).content
    assert first + rest == CONTENT

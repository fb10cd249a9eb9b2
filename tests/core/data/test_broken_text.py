"""Files that are broken as text or as JSON: each is told where, and none raises."""

import gzip
import json
import zlib

import pytest
import zstandard

from core.data.check import check_rows

GOOD = b'{"prompt": "a", "completion": "b"}\n'
DEEP = b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b', "completion": "b"}'
MEMBER = gzip.compress(GOOD * 50)
FRAME = zstandard.compress(GOOD * 50)
LONG = b'{"prompt": "' + b"x" * 10 * 2**20 + b'", "completion": 3}\n'

# what it is, bytes, line, pointer, code
BROKEN = [
    ("nothing", b"", 0, "", "empty_file"),
    ("blank lines", b"\n \t\n\r\n", 0, "", "empty_file"),
    ("a lone BOM", b"\xef\xbb\xbf", 0, "", "empty_file"),
    ("an empty gzip", gzip.compress(b""), 0, "", "empty_file"),
    ("UTF-16 with BOM", GOOD.decode().encode("utf-16"), 0, "", "invalid_encoding"),
    ("UTF-16 without BOM", GOOD.decode().encode("utf-16-le"), 0, "", "invalid_encoding"),
    ("UTF-16 big end first", GOOD.decode().encode("utf-16-be"), 0, "", "invalid_encoding"),
    ("UTF-32 with BOM", GOOD.decode().encode("utf-32"), 0, "", "invalid_encoding"),
    ("UTF-32 big end first", GOOD.decode().encode("utf-32-be"), 0, "", "invalid_encoding"),
    ("UTF-16 in gzip", gzip.compress(GOOD.decode().encode("utf-16")), 0, "", "invalid_encoding"),
    ("Latin-1", GOOD + b'{"prompt": "caf\xe9", "completion": ""}', 2, "", "invalid_encoding"),
    ("UTF-16 further down", GOOD + b"\xff\xfe{\x00}\x00", 2, "", "invalid_encoding"),
    ("a surrogate in bytes", b'{"prompt": "\xed\xa0\x80"}', 1, "", "invalid_encoding"),
    ("an overlong form", b'{"prompt": "\xc0\xaf"}', 1, "", "invalid_encoding"),
    ("a BOM further down", GOOD + b"\xef\xbb\xbf" + GOOD, 2, "", "invalid_json"),
    ("a lone surrogate", b'{"prompt": "\\ud800", "completion": ""}', 1, "", "invalid_json"),
    ("a NUL in a string", b'{"prompt": "\x00", "completion": ""}', 1, "", "invalid_json"),
    ("a NUL for a line", GOOD + b"\x00\n", 2, "", "invalid_json"),
    ("a tab in a string", b'{"prompt": "\t", "completion": ""}', 1, "", "invalid_json"),
    ("rows parted by lone CRs", GOOD[:-1] + b"\r" + GOOD[:-1], 1, "", "invalid_json"),
    ("two rows on a line", GOOD[:-1] + GOOD, 1, "", "invalid_json"),
    ("a trailing comma", GOOD + b'{"prompt": "a", "completion": "b",}', 2, "", "invalid_json"),
    ("a comma after the row", GOOD[:-1] + b",\n", 1, "", "invalid_json"),
    ("single quotes", b"{'prompt': 'a', 'completion': 'b'}", 1, "", "invalid_json"),
    ("a comment", b"// rows\n" + GOOD, 1, "", "invalid_json"),
    ("a row cut off", GOOD + GOOD + GOOD[:20], 3, "", "invalid_json"),
    ("CSV", b"prompt,completion\na,b\n", 1, "", "invalid_json"),
    ("NaN", b'{"prompt": NaN, "completion": "b"}', 1, "", "invalid_json"),
    ("infinity", b'{"prompt": -Infinity, "completion": "b"}', 1, "", "invalid_json"),
    ("deep nesting", DEEP, 1, "", "invalid_json"),
    ("a huge number", b'{"input_ids": [1, ' + b"9" * 5000 + b"]}", 1, "", "invalid_json"),
    ("a large number", b'{"input_ids": [1, ' + b"9" * 99 + b"]}", 1, "/input_ids/1", None),
    ("a pretty-printed list", b"[\n" + GOOD + b"]", 1, "", "invalid_json"),
    ("all in one list", b"[" + GOOD[:-1] + b"]", 1, "", None),
    ("a string", b'"prompt"', 1, "", None),
    ("null", GOOD + b"null", 2, "", None),
    ("an empty object", GOOD + b"\n{}", 3, "", None),
    (
        "a key twice",
        b'{"prompt": "a", "prompt": "c", "completion": ""}',
        1,
        "/prompt",
        "duplicate_key",
    ),
    (
        "a key twice, deep down",
        b'{"messages": [{"role": "user", "content": "", "role": "assistant"}]}',
        1,
        "/messages/0/role",
        "duplicate_key",
    ),
    ("10 MiB and a fault", GOOD + LONG, 2, "/completion", None),
    ("a gzip cut off", MEMBER[:-9], 0, "", "damaged_container"),
    ("a gzip without its end", MEMBER[:-1], 0, "", "damaged_container"),
    ("a gzip header alone", MEMBER[:10], 0, "", "damaged_container"),
    ("a gzip with a wrong sum", MEMBER[:-8] + b"\0" * 8, 0, "", "damaged_container"),
    ("gzip and something else", MEMBER + b"more", 0, "", "damaged_container"),
    ("gzip in gzip", gzip.compress(MEMBER), 0, "", "unsupported_container"),
    ("gzip in zstd", zstandard.compress(MEMBER), 0, "", "unsupported_container"),
    ("a zstd cut off", FRAME[:-2], 0, "", "damaged_container"),
    ("a zstd magic and garbage", FRAME[:4] + b"\xff" * 50, 0, "", "damaged_container"),
    ("zstd and something else", FRAME + b"more", 0, "", "damaged_container"),
    ("zlib without gzip", zlib.compress(GOOD), 1, "", "invalid_encoding"),
    ("a zip", b"PK\x03\x04" + b"\0" * 30, 0, "", "unsupported_container"),
    ("bzip2", b"BZh91AY&SY", 0, "", "unsupported_container"),
    ("xz", b"\xfd7zXZ\x00\x00", 0, "", "unsupported_container"),
]


@pytest.mark.parametrize(
    ("data", "line", "pointer", "code"), [b[1:] for b in BROKEN], ids=[b[0] for b in BROKEN]
)
def test_the_first_problem_is_named_by_line_pointer_and_code(data, line, pointer, code):
    report = check_rows([data[:3], data[3:]])
    first = report.problems[0]
    wanted = (line, pointer, code or "invalid_file_format")
    assert (first.line, first.pointer, first.code) == wanted, report.summary
    assert first.hint
    assert first.message
    assert json.loads(report.model_dump_json())["ok"] is False


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n") * 2,
        b"\n\n" + GOOD + b"\n" + GOOD[:-1],
        MEMBER,
        gzip.compress(GOOD) + gzip.compress(GOOD) + b"\0" * 20,
        FRAME + zstandard.compress(GOOD),
        b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + FRAME,
        gzip.compress(b"\xef\xbb\xbf" + GOOD),
    ],
    ids=["BOM", "CRLF", "blanks", "gzip", "members", "frames", "skippable frame", "BOM in gzip"],
)
def test_what_only_looks_odd_is_accepted(data):
    assert check_rows([data]).ok
    assert check_rows([data[n : n + 1] for n in range(len(data))]).ok

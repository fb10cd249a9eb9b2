"""Memory stays small however large a file is, or would be once decompressed."""

import gzip
import struct
import tracemalloc
import zlib
from contextlib import contextmanager

import pytest

from core.data.check import check_rows

MIB = 2**20


@contextmanager
def peak_below(limit):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def stream(count, length):
    """Rows, each different, made as they are asked for."""
    filler = b"x" * length
    for number in range(count):
        yield b'{"text": "%d %b"}\n' % (number, filler)


def gzipped(chunks):
    packer = zlib.compressobj(1, wbits=31)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


@pytest.mark.parametrize(("around", "rows"), [(iter, 2000), (gzipped, 200)])
def test_a_large_file_is_checked_in_little_memory(around, rows):
    with peak_below(50 * MIB):
        report = check_rows(around(stream(rows, 100 * 1024)))
    assert (report.ok, report.rows) == (True, rows)


def test_a_gzip_bomb_ends_at_the_limit_in_little_memory():
    bomb = gzip.compress(bytes(100 * MIB).replace(b"\0", b"\n"))
    assert len(bomb) < MIB
    with peak_below(20 * MIB):
        report = check_rows([bomb], max_total_bytes=20 * MIB)
    assert [p.code for p in report.problems] == ["file_too_large"]


def test_a_zstd_bomb_ends_at_the_limit_in_little_memory():
    header = b"\x28\xb5\x2f\xfd\x00\x58"
    block = struct.pack("<I", 128 * 1024 << 3 | 2)[:3] + b"a"
    with peak_below(100 * MIB):
        report = check_rows(
            [header + block * 100_000], max_line_bytes=MIB, max_total_bytes=99 * MIB
        )
    assert [p.code for p in report.problems] == ["file_too_large"]


def test_a_line_without_end_in_gzip_is_one_problem():
    packed = gzip.compress(b"[" * (50 * MIB))
    with peak_below(10 * MIB):
        report = check_rows([packed], max_line_bytes=MIB)
    assert [(p.line, p.code) for p in report.problems] == [(1, "line_too_long")]

"""The benchmark of reading files: what it writes is what it says, and every reader reads all of it."""

from benchmarks.data import measured
from benchmarks.data_files import SHORT_BYTES, write_chat, write_short
from core.data.check import check_rows


def test_the_check_finds_what_was_written_and_each_reader_has_its_figures(tmp_path):
    report = measured(tmp_path, 3_000_000)
    assert report["bytes"] >= 3_000_000
    assert report["broken"] >= 1
    assert report["duplicates"] > 10
    for prefix in ("", "gzip_", "zstd_", "short_", "json_", "pyarrow_"):
        assert 10 < report[f"{prefix}peak_rss_mib"] < 500
        assert report[f"{prefix}cpu_mb_s"] > 0
    assert report["short_rows_tracked"] == report["short_rows"]
    assert not list(tmp_path.glob("*.gzip"))


def test_a_written_file_is_the_same_every_time_and_all_its_kinds_of_row_are_read(tmp_path):
    sizes = {write_chat(tmp_path / name, 100_000).bytes for name in "ab"}
    assert len(sizes) == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    report = check_rows([(tmp_path / "a").read_bytes()])
    assert report.ok
    assert report.ignored.keys() == {"id", "source"}


def test_short_rows_are_short_and_all_different(tmp_path):
    written = write_short(tmp_path / "short", 10_000)
    lines = (tmp_path / "short").read_bytes().splitlines(keepends=True)
    assert {len(line) for line in lines} == {SHORT_BYTES}
    assert len(set(lines)) == written.rows == 100

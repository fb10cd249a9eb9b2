"""The folder is bounded, takes what it can get, and serves several processes."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.train.cache import CachePlace

ROOT = Path(__file__).parents[4]
RACE = """
import sys
from pathlib import Path
from transformers import AutoTokenizer
from core.data.encoded import Encoded
from core.data.lengths import Lengths
from core.data.overlength import LengthReport
from core.train.cache import CachePlace, RowCache
from core.train.lessons import FileRows, Rows

def tell(code, words):
    raise SystemExit(words)

rows = [Encoded([n] * 5000, [False] + [True] * 4999) for n in range(4)]
found = FileRows(Rows(rows, LengthReport(), Lengths()))
place = CachePlace(Path(sys.argv[1]), 150_000)
cache = RowCache(place, AutoTokenizer.from_pretrained(sys.argv[2]), tell)
for turn in range(120):
    key = str(turn % 3)
    kept = cache.find(key)
    assert kept is None or kept.read == found.read
    cache.keep(key, found)
"""


@pytest.fixture
def found(read, tmp_path):
    return read(place=CachePlace(tmp_path / "elsewhere", 10**6))


def entries(place):
    return sorted(path.stem for path in place.folder.glob("*.rows"))


def test_the_least_recently_used_goes_where_there_is_no_room(open_cache, place, found):
    open_cache().keep("size", found)
    size = (place.folder / "size.rows").stat().st_size
    (place.folder / "size.rows").unlink()
    cache = open_cache(place=replace(place, limit_bytes=3 * size))
    for age, key in enumerate(("a", "b", "c")):
        cache.keep(key, found)
        os.utime(place.folder / f"{key}.rows", (1000 + age, 1000 + age))
    assert cache.find("a") is not None
    cache.keep("d", found)
    assert entries(place) == ["a", "c", "d"]


def test_what_is_larger_than_the_cache_is_told_and_pushes_nothing_out(
    open_cache, place, found, warnings
):
    open_cache().keep("a", found)
    open_cache(place=replace(place, limit_bytes=100)).keep("b", found)
    assert entries(place) == ["a"]
    assert [code for code, _ in warnings] == ["rows.not_cached"]


def test_a_folder_that_cannot_be_made_is_told_and_the_rows_are_there(read, place, warnings):
    place.folder.write_text("a file stands in the way")
    assert not read().cached
    assert {code for code, _ in warnings} == {"rows.not_cached"}
    assert str(place.folder) in warnings[-1][1]


def test_what_a_killed_process_left_goes_and_what_is_being_written_stays(open_cache, place, found):
    place.folder.mkdir()
    for name, time in (("old.part", 1000), ("new.part", None)):
        (place.folder / name).write_bytes(b"half")
        os.utime(place.folder / name, time and (time, time))
    open_cache().keep("a", found)
    assert sorted(path.name for path in place.folder.iterdir()) == ["a.rows", "new.part"]


def test_it_is_for_its_owner_alone(open_cache, place, found):
    open_cache().keep("a", found)
    assert place.folder.stat().st_mode & 0o077 == 0
    assert (place.folder / "a.rows").stat().st_mode & 0o077 == 0


def test_processes_that_keep_find_and_evict_at_once_see_whole_entries(place, toy_model):
    command = [sys.executable, "-c", RACE, str(place.folder), str(toy_model)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    racing = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE) for _ in range(2)]
    said = [process.communicate()[1].decode() for process in racing]
    assert [process.returncode for process in racing] == [0, 0], said
    assert not list(place.folder.glob("*.part"))

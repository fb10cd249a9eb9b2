"""The end of a log: whole lines, the last of them, without secrets, and kept although the store is away."""

from dataclasses import replace
from threading import Thread

import pytest

from core.spec.run import LOG_FILE
from core.store.errors import ArtifactsDown
from worker import last_words
from worker.keeper import LeaseKeeper
from worker.last_words import log_tail, store_log


@pytest.fixture
def keeper(context, add_job, claim):
    with LeaseKeeper(context.database, claim(add_job()), 60) as keeper:
        yield keeper


def test_the_end_is_kept_in_whole_lines(tmp_path):
    lines = [f"line {number} é" for number in range(2000)]
    (tmp_path / LOG_FILE).write_text("\n".join(lines))
    kept = log_tail(tmp_path, 1000)
    assert 900 < len(kept.encode()) <= 1000
    assert kept.splitlines() == lines[-len(kept.splitlines()) :]


def test_a_log_that_is_short_is_kept_whole_and_none_is_nothing(tmp_path):
    assert log_tail(tmp_path) == ""
    (tmp_path / LOG_FILE).write_text("a\nb")
    assert log_tail(tmp_path) == "a\nb"


def test_one_line_without_end_is_cut(tmp_path):
    (tmp_path / LOG_FILE).write_text("x" * 10_000)
    assert log_tail(tmp_path, 100) == "x" * 100


def test_a_secret_on_the_edge_is_taken_out(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "abcdefghij" * 3)
    (tmp_path / LOG_FILE).write_text("y" * 9000 + "abcdefghij" * 3 + "z" * 85)
    kept = log_tail(tmp_path, 100)
    assert kept.endswith("ed]" + "z" * 85)
    assert "j" not in kept


def test_a_log_is_kept_once_the_database_is_back(
    tmp_path, context, keeper, outage, until, caplog, records
):
    (tmp_path / LOG_FILE).write_text("why\n")
    before = records.blob_count()
    kept = []
    storing = Thread(target=lambda: kept.append(store_log(context.blobs, tmp_path, keeper)))
    with outage():
        storing.start()
        until(lambda: "the log is not kept, trying again" in caplog.text)
    storing.join()
    assert b"".join(context.blobs.read(kept[0].id)) == b"why\n"
    assert records.blob_count() == before + 1


def test_artifacts_that_stay_away_cost_the_log_alone(tmp_path, context, keeper, monkeypatch):
    class Away:
        def write(self, _):
            raise ArtifactsDown("cannot write")

    monkeypatch.setattr(last_words, "LIMIT_S", 0.0)
    (tmp_path / LOG_FILE).write_text("why\n")
    assert store_log(replace(context, blobs=Away()).blobs, tmp_path, keeper) is None

"""What a launcher leaves behind is ended before others have its devices; each rank's words are kept."""

import subprocess
import sys

import pytest

from core.spec.run import LOG_FILE, RANKS_FOLDER
from worker.ending import error_of
from worker.last_words import log_tail, rank_tails
from worker.ranks_left import RanksLeft

SLEEPER = "import time; time.sleep(600)"


@pytest.fixture
def rank_in():
    """A process that looks like a rank of this run directory."""
    started = []

    def start(directory):
        command = [sys.executable, "-c", SLEEPER, "core.train", "--out", str(directory)]
        started.append(subprocess.Popen(command))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_ranks_of_one_run_are_ended_and_others_left_alone(tmp_path, rank_in):
    ours = [rank_in(tmp_path / "attempt-1") for _ in range(2)]
    other = rank_in(tmp_path / "attempt-10")
    RanksLeft(tmp_path / "attempt-1").end()
    assert [rank.wait(1) for rank in ours] == [-9, -9]
    assert other.poll() is None


def test_every_rank_has_its_part_of_the_log_without_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_SECRET", "hush-hush")
    (tmp_path / LOG_FILE).write_text("castalia: rank 1 was ended by signal 9\n")
    for rank, words in ((0, "chatter\n" * 50_000), (10, "later"), (1, "the reason hush-hush")):
        folder = tmp_path / RANKS_FOLDER / "run" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(words)
    told = rank_tails(tmp_path)
    headings = [line for line in told.splitlines() if line.startswith("==")]
    assert headings == [f"== rank {rank}, stderr ==" for rank in (0, 1, 10)]
    assert "the reason [redacted]" in told
    assert len(told) < 65_536 + 1024
    assert rank_tails(tmp_path / "alone") == ""
    assert "rank 1" in log_tail(tmp_path)


def test_a_kill_is_told_as_of_one_process_and_names_the_rank(tmp_path):
    (tmp_path / LOG_FILE).write_text("castalia: rank 1 was ended by signal 9\n")
    alone = error_of(-9, tmp_path)
    (tmp_path / RANKS_FOLDER).mkdir()
    told = error_of(-9, tmp_path)
    assert (told.code, told.fault, told.retryable) == (alone.code, alone.fault, alone.retryable)
    assert "rank 1" in told.message
    assert "rank 1" not in alone.message

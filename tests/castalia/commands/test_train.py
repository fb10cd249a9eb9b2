"""`castalia train` keeps encoded rows in the user's cache and tells what it found in a file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from castalia.commands.train import user_cache

ROOT = Path(__file__).parents[3]


@pytest.fixture
def train(tmp_path, toy_model, chat_lines):
    """One step on the toy model, in a new run directory; what the command printed."""
    (tmp_path / "rows.jsonl").write_bytes(chat_lines(3))
    spec = {
        "model": str(toy_model),
        "training_file": str(tmp_path / "rows.jsonl"),
        "trainer": {"context_length": 64, "max_steps": 1},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }

    def do(name, *options):
        command = [sys.executable, "-P", "-m", "castalia", "train", str(tmp_path / "spec.json")]
        command += ["--out", str(tmp_path / name), *options]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    return do


@pytest.mark.slow
def test_rows_are_told_and_found_by_the_next_run(train, tmp_path):
    assert "training_file: 3 rows of" in train("off", "--cache-bytes", "0")
    assert not (tmp_path / "cache").exists()
    assert "rows by tokens: 16-31: 2, 32-63: 1" in train("one")
    assert len(list((tmp_path / "cache" / "castalia" / "rows").glob("*.rows"))) == 1
    assert ", cached;" in train("two")


def test_a_relative_cache_folder_is_not_taken(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert user_cache() == Path.home() / ".cache" / "castalia" / "rows"
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert user_cache() == Path("/c/castalia/rows")

"""What a benchmark found is kept with its provenance, and a failure is not kept."""

import json
import sys

import pytest

from benchmarks import record


@pytest.fixture
def results(monkeypatch, tmp_path):
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(record, "RESULTS", folder)
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    record._git("init", "-q")
    record._git(*author, "commit", "-qm", "x", "--allow-empty")
    return folder


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["record", *words])
    return record.main()


@pytest.mark.slow
def test_command_commit_and_date_stand_beside_the_figures(monkeypatch, results):
    assert run(monkeypatch, "gpt2", "benchmarks.exactness", "gpt2") == 0
    (path,) = results.iterdir()
    kept = json.loads(path.read_text())
    assert path.name == f"{kept['date'][:10]}-gpt2.json"
    assert kept["command"] == "python -m benchmarks.exactness --json gpt2"
    assert len(kept["commit"]) == 40
    assert kept["uncommitted"] is False
    assert kept["found"]["families_streamed"] == 1


@pytest.mark.parametrize("words", [("name", "benchmarks.exactness", "--nonsense"), ("name",)])
def test_a_benchmark_that_fails_leaves_nothing(words, monkeypatch, results):
    assert run(monkeypatch, *words) == 2
    assert not list(results.iterdir())

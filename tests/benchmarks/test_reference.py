"""The authors' StreamBP beside ours: reported where it is absent, run where it is installed."""

import json
import sys

import pytest

from benchmarks import cases, compare, memory
from benchmarks.cases import OURS_LEAST, REFERENCE, Case, Measured, Shape, run_case
from benchmarks.compare import check_losses, report_of

TOY = Shape(
    hidden=64, layers=2, heads=2, key_heads=1, head_width=32, intermediate=96, vocabulary=512
)
FIGURES = [
    Measured(OURS_LEAST, 1000, 100, 4.0, 4.0, 2.0),
    Measured(REFERENCE, 1000, 300, 8.0, 8.0, 1.9),
]


@pytest.fixture
def absent(monkeypatch, tmp_path):
    monkeypatch.setattr(cases, "PEERS_VENV", tmp_path)


@pytest.fixture
def present(monkeypatch):
    monkeypatch.setattr(compare, "reference_installed", lambda: True)


@pytest.mark.usefixtures("absent")
def test_an_absent_reference_is_reported_and_not_run(monkeypatch, capsys):
    words = ["--json", "--tokens", "128", "--no-context", "--modes", REFERENCE, OURS_LEAST]
    monkeypatch.setattr(sys, "argv", ["memory", *words])
    memory.main()
    report = json.loads(capsys.readouterr().out)
    assert report["reference_streambp"] == "not installed"
    assert [case["mode"] for case in report["cases"]] == [OURS_LEAST]


@pytest.mark.usefixtures("present")
def test_its_wrong_loss_is_reported_and_does_not_end_the_run():
    check_losses(FIGURES)
    found = report_of(FIGURES, {}, lambda _: 1)["reference_streambp"]
    assert found["loss_relative_difference"] == pytest.approx(-0.05)
    assert (found["ratio_memory"], found["ratio_time"]) == (3, 0.5)


@pytest.mark.usefixtures("present")
def test_what_was_not_asked_for_has_no_figures():
    found = report_of(FIGURES[:1], {}, lambda _: 1)["reference_streambp"]
    assert set(found.values()) == {None}


@pytest.mark.skipif(not cases.reference_installed(), reason="run `make peers` for the reference")
def test_the_reference_is_off_by_one_over_n_on_the_same_weights_and_tokens():
    case = Case(REFERENCE, 500, chunk_tokens=128, head_chunk_tokens=64, shape=TOY)
    theirs = run_case(case)
    plain = run_case(Case("plain", 500, shape=TOY))
    assert theirs.loss == pytest.approx(plain.loss * 499 / 500, rel=1e-5)
    assert 0 < theirs.memory_bytes < plain.memory_bytes

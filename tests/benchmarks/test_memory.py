"""The benchmark of memory: its arithmetic on given figures, and one small run for real."""

import json
import sys

import pytest
import torch

from benchmarks import memory
from benchmarks.cases import (
    CHECKPOINTING,
    CHUNKED_CE,
    OURS_LEAST,
    Case,
    Measured,
    Shape,
)
from benchmarks.compare import LossesDiffer, check_losses, gathered, report_of
from benchmarks.contexts import longest_context
from benchmarks.gpu import memory as gpu
from benchmarks.measuring import measured
from benchmarks.planned import planned_bytes
from benchmarks.steps import measure

TOY = Shape(
    hidden=64, layers=1, heads=2, key_heads=1, head_width=32, intermediate=96, vocabulary=512
)
GIB = 2**30


def figures(tokens=8192):
    return [
        Measured(CHECKPOINTING, tokens, 4 * GIB, 8.0, 8.0, 3.0),
        Measured(CHUNKED_CE, tokens, 2 * GIB, 8.0, 8.0, 3.0),
        Measured(OURS_LEAST, tokens, GIB // 4, 7.0, 9.0, 3.0),
    ]


def half(measured):
    return measured.memory_bytes // 2


def test_memory_is_peer_over_ours_and_time_is_ours_over_peer():
    report = report_of([*figures(2048), *figures()], {CHUNKED_CE: 1000, OURS_LEAST: 9000}, half)
    assert report["tokens"] == 8192
    assert report["ratio_memory_vs_checkpointing"] == 16
    assert report["ratio_memory_vs_checkpointing_chunked_ce"] == 8
    assert report["ratio_time_vs_checkpointing_chunked_ce"] == 7 / 8
    assert report["ratio_max_context_vs_checkpointing_chunked_ce"] == 9
    assert report["memory_exponent"] == 0
    assert report["plan"] == {f"{OURS_LEAST} at {tokens}": -0.5 for tokens in (2048, 8192)}


def test_the_exponent_of_memory_that_doubles_with_the_tokens_is_one():
    double = [Measured(OURS_LEAST, t, 10 * t, 1.0, 1.0, 3.0) for t in (2048, 4096, 8192)]
    assert report_of(double, {}, half)["memory_exponent"] == pytest.approx(1)


def test_what_was_not_measured_has_no_ratio():
    report = report_of(figures()[:1], {}, half)
    assert report["ratio_memory_vs_checkpointing"] is None
    assert report["ratio_max_context_vs_checkpointing_chunked_ce"] is None


def test_of_rounds_the_median_of_memory_counts_and_the_least_time():
    rounds = [Measured("plain", 8, size, float(size), 2.0 * size, 3.0) for size in (9, 1, 5)]
    assert gathered(rounds) == [Measured("plain", 8, 5, 1.0, 2.0, 3.0)]


def test_of_several_steps_the_first_tells_the_memory_and_the_fastest_the_time():
    calls = []

    def step(_ids):
        calls.append(len(calls))
        held = torch.ones(2**22 if len(calls) == 3 else 2**24)
        return float(held[0])

    case = Case("", 200, steps=2)
    found = measured(case, step, torch.zeros(1, 200, dtype=torch.long))
    assert calls == [0, 1, 2]  # the first is a few tokens, to warm up
    assert found.memory_bytes >= 2**25
    assert 0 < found.wall_s < 1


def test_modes_that_disagree_about_the_loss_are_not_compared():
    with pytest.raises(LossesDiffer, match="has loss 3"):
        check_losses([*figures(), Measured("ours/odd/device", 8192, 1, 1.0, 1.0, 3.1)])


@pytest.mark.parametrize("fixed", [0, 3_000_000])
def test_the_longest_context_is_found_by_measuring_what_a_line_says(fixed):
    asked = []

    def memory_of(tokens):
        asked.append(tokens)
        return fixed + 1000 * tokens + tokens**2 // 100

    known = [Measured("m", t, memory_of(t), 1.0, 1.0, 3.0) for t in (2048, 4096)]
    found = longest_context(known, memory_of, 16_000_000)
    assert found in asked
    assert 0.9 * 16_000_000 <= memory_of(found) <= 16_000_000


def test_no_context_fits_where_none_was_measured_to():
    assert longest_context([], lambda _: 10**9, 10**6) is None


@pytest.mark.parametrize("mode", ["plain", CHUNKED_CE, OURS_LEAST])
def test_every_mode_computes_the_same_loss(mode):
    measured = measure(Case(mode, 512, chunk_tokens=128, shape=TOY))
    assert measured.loss == pytest.approx(6.25, abs=0.02)  # about log 512
    assert measured.cpu_s > 0


@pytest.mark.slow
def test_the_command_runs_each_case_in_a_process_and_prints_one_json_object(monkeypatch, capsys):
    words = ["--json", "--tokens", "1024", "--no-context", "--modes", CHECKPOINTING, OURS_LEAST]
    monkeypatch.setattr(sys, "argv", ["memory", *words])
    memory.main()
    report = json.loads(capsys.readouterr().out)
    assert report["ratio_memory_vs_checkpointing"] > 1
    assert list(report["policies"]) == [OURS_LEAST]


def test_the_plan_foretells_the_cases_of_the_benchmark():
    peaks = [
        planned_bytes(Case(f"ours/{policy}", 8192))
        for policy in (
            "hidden/disk",
            "hidden/device",
            "hidden+kv/device",
            "hidden+attention/device",
        )
    ]
    assert peaks == sorted(peaks)
    assert 150 * 2**20 < planned_bytes(Case(OURS_LEAST, 8192)) < 300 * 2**20


def test_on_a_gpu_what_does_not_fit_the_time_is_left_out_by_name():
    report = gpu.run_within([Case("none", 512, shape=TOY), Case("plain", 1)], 1e-9)
    assert len(report["left_out"]) == 2
    assert {case.device for case in gpu.cases()} == {"cuda"}


@pytest.mark.slow
def test_a_case_that_fails_says_why():
    report = gpu.run_within([Case("none", 512, shape=TOY)], 60)
    assert "mode 'none'" in report["failed"][0]["why"]

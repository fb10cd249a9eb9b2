"""The benchmark of quality: a short grid for real, resumed from its remembered runs, and its report."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from benchmarks.cases import CaseFailed
from benchmarks.corpus import corpus
from benchmarks.figures import draw
from benchmarks.finetuning import FinetuningCase
from benchmarks.pretraining import ROW_TOKENS, VOCABULARY, PretrainingCase, trained
from benchmarks.quality import RECIPES, SHORT, Run, Runner, best_rate, pretrained, report_of
from benchmarks.quality_report import panels, table
from core.spec.job import JobSpec

PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def short_runs(tmp_path_factory):
    remembered = tmp_path_factory.mktemp("quality") / "runs.jsonl"
    recipes = {name: replace(one, rates=one.rates[:1]) for name, one in RECIPES.items()}
    return remembered, recipes, pretrained(Runner(1, remembered), recipes, SHORT)


def test_the_text_is_whole_and_nothing_of_it_is_in_both_parts():
    text = corpus(VOCABULARY, ROW_TOKENS)
    tokens = text.train_RT.numel() + text.validation_RT.numel()
    assert 1.2e6 < tokens < 1.5e6
    assert text.validation_RT.numel() / tokens == pytest.approx(1 / 20, rel=0.2)
    train = {tuple(row) for row in text.train_RT[:, :64].tolist()}
    assert not train & {tuple(row) for row in text.validation_RT[:, :64].tolist()}


def test_every_optimizer_learns_in_six_steps(short_runs):
    _, recipes, runs = short_runs
    assert len(runs) == 3 * len(recipes)
    for run in runs:
        first, last = run.curve[0][1], run.curve[-1][1]
        assert first == pytest.approx(torch.log(torch.tensor(VOCABULARY)).item(), rel=0.02)
        assert last < first - 0.02, run


def test_runs_are_found_again_and_not_run_again(short_runs):
    remembered, recipes, runs = short_runs
    before = remembered.read_text()
    assert pretrained(Runner(1, remembered), recipes, SHORT) == [
        replace(run, curve=[list(point) for point in run.curve]) for run in runs
    ]
    assert remembered.read_text() == before


def test_a_run_is_the_same_twice():
    case = PretrainingCase({"kind": "apollo_mini"}, "int8", 0.01, seed=3, **SHORT)
    assert trained(case)["curve"] == trained(case)["curve"]


def test_a_failed_run_is_told_and_the_others_are_remembered(tmp_path):
    def failing():
        raise CaseFailed("no luck")

    remembered = tmp_path / "runs.jsonl"
    runner = Runner(2, remembered)
    with pytest.raises(CaseFailed, match="no luck"):
        runner.all({"bad": failing, "good": lambda: {"curve": [(0, 1.0)]}})
    assert Runner(1, remembered).all({"good": failing}) == {"good": {"curve": [[0, 1.0]]}}


def test_ratios_are_of_means_over_seeds_at_the_best_rate():
    losses = {("adamw", 0.1): [3.0, 5.0, 4.0], ("adamw", 0.2): [3.5], ("mini", 0.1): [3.9],
              ("mini", 0.2): [3.0, 3.0, 3.0], ("int8_mini", 0.2): [6.0, 6.0, 6.0]}  # fmt: skip
    runs = [
        Run(recipe, rate, seed, [(0, 9.0), (1, loss), (2, loss + 1)])
        for (recipe, rate), found in losses.items()
        for seed, loss in enumerate(found)
    ]
    assert best_rate(runs, "adamw") == 0.1
    report = report_of(runs)
    assert report["validation_loss_adamw"] == 4.0
    assert report["best_rate_mini"] == 0.2
    assert report["loss_ratio_mini_vs_adamw"] == 0.75
    assert report["loss_ratio_int8_mini_vs_mini"] == 2.0


def test_the_report_is_a_table_and_a_figure(short_runs, tmp_path):
    *_, runs = short_runs
    tuned = [asdict(Run(name, 1e-4, 0, [(6, 2.5), (12, 2.25)])) for name in RECIPES]
    found = report_of(runs) | {"pretraining": [asdict(run) for run in runs], "finetuning": tuned}
    kept = json.loads(json.dumps({"command": "python", "commit": "0" * 40, "date": "2026-01-01T00:00",
                                  "found": found}))  # fmt: skip
    page = table(kept)
    assert f"| AdamW | {RECIPES['adamw'].rates[0]:g}: " in page
    assert "| APOLLO-Mini, int8 weights | 0.0001 | 2.5000 | 2.2500 |" in page
    draw(panels(kept["found"]), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(PNG)


def test_fine_tuning_is_a_job_that_the_product_takes():
    for recipe in RECIPES.values():
        case = FinetuningCase(recipe.optimizer, recipe.precision, recipe.finetuning_rate)
        spec = JobSpec.parse(case.spec(Path("/models/any")))
        assert spec.trainer.optimizer.kind == recipe.optimizer["kind"]
        assert Path(spec.training_file).is_file()

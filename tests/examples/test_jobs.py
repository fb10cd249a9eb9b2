"""The example jobs are jobs, and the rows made for them are rows that their objectives learn from."""

import importlib.util
import json
from pathlib import Path

import pytest

from core.data.check import check_rows
from core.data.fitness import why_unfit
from core.spec.job import JobSpec
from core.spec.model import ModelFacts

EXAMPLES = Path(__file__).parents[2] / "examples"
KINDS = ("pretrain", "sft", "dpo", "grpo")
FACTS = ModelFacts(name="m", architecture="A", longest_context=8192, vocabulary=64)


@pytest.fixture(scope="module")
def make_rows():
    spec = importlib.util.spec_from_file_location("make_rows", EXAMPLES / "make_rows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", KINDS)
def test_each_objective_has_a_job_that_resolves(kind):
    spec = JobSpec.parse(json.loads((EXAMPLES / "jobs" / f"{kind}.json").read_text()))
    assert spec.resolved(FACTS).trainer.objective.kind == kind


def test_jobs_that_go_on_from_another_name_the_checkpoint_with_which_it_ends():
    sums = json.loads((EXAMPLES / "jobs" / "sums.json").read_text())
    last = f"runs/sums/checkpoints/step-{sums['trainer']['max_steps']:08}"
    for kind in ("dpo", "grpo"):
        assert json.loads((EXAMPLES / "jobs" / f"{kind}.json").read_text())["model"] == last


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_rows_are_none_of_those_that_are_trained_on(make_rows, kind):
    asked = {
        part: {
            row.get("text") or json.dumps(row.get("input", row)["messages"][0])
            for row in make_rows.rows(kind, 60, seed, part=part)
        }
        for part, seed in (("train", 1), ("held-out", 2), ("all", 3))
    }
    assert asked["train"].isdisjoint(asked["held-out"])
    assert min(map(len, asked.values())) > 10


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_each_kind_are_what_the_objective_learns_from(make_rows, tmp_path, kind):
    path = tmp_path / "rows.jsonl"
    make_rows.write(path, make_rows.rows(kind, 20, seed=3))
    report = check_rows([path.read_bytes()])
    assert (report.rows, report.problem_count) == (20, 0), report.problems
    assert why_unfit(report.shape, kind) is None
    assert list(make_rows.rows(kind, 20, seed=3)) == list(make_rows.rows(kind, 20, seed=3))


def test_a_wrong_answer_is_wrong(make_rows):
    for row in make_rows.rows("dpo", 50, seed=1):
        assert row["preferred_output"] != row["non_preferred_output"]

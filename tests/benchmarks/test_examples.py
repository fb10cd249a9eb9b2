"""The benchmark of the example jobs, on a toy model: every one runs, and leaves the curves that are kept."""

import pytest

from benchmarks.examples import CURVES, shown
from benchmarks.examples_report import panels
from benchmarks.figures import draw
from castalia.toy_model import make_toy_model

STEPS = 2


@pytest.mark.slow
def test_each_example_job_runs_as_it_stands_and_leaves_its_curves(tmp_path):
    model = make_toy_model(tmp_path / "toy", hidden=16, layers=1)
    report = shown(model, tmp_path, STEPS)
    for kind, metrics in CURVES.items():
        for metric in metrics:
            steps = [step for step, _ in report["curves"][kind][metric]]
            assert steps == ([0, STEPS] if "valid" in metric else [1, STEPS]), (kind, metric)
    rewards = [reward for _, reward in report["curves"]["grpo"]["reward_mean"]]
    assert report["curves"]["grpo"]["reward_mean_of_epochs"] == [
        (STEPS, pytest.approx(sum(rewards) / STEPS))
    ]
    assert report["full_valid_loss_sft_last"] < report["full_valid_loss_sft_first"]
    assert report["valid_reward_accuracy_dpo_first"] == pytest.approx(0.5)
    draw(panels(report["curves"]), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000

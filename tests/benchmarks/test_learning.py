"""The benchmark of learning in its short form: a tiny model through all three objectives, for real."""

import pytest

from benchmarks.figures import draw
from benchmarks.learning import SHORT, learnt
from benchmarks.learning_report import panels


@pytest.mark.slow
def test_each_objective_runs_and_tells_how_it_began_and_ended(tmp_path):
    report = learnt(SHORT, tmp_path)
    assert set(report) == {
        *(
            f"{name}_{end}"
            for name in ("loss_sft", "reward_grpo", "accuracy_dpo")
            for end in ("first", "last")
        ),
        "curves",
    }
    assert report["loss_sft_last"] < report["loss_sft_first"]
    assert report["accuracy_dpo_first"] == pytest.approx(0.5)
    assert [step for step, _ in report["curves"]["grpo_reward"]] == [1, 2]
    draw(panels(report["curves"]), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000

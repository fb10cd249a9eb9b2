"""The benchmark of shared prompts: exactness and objectives at toy size, arithmetic on given figures."""

import json
import sys

import pytest
import torch
from torch.testing import assert_close

from benchmarks import prefix
from benchmarks.cases import Measured
from benchmarks.compare import LossesDiffer
from benchmarks.groups import KINDS, MODES, dpo_loss, grpo_loss, rows_of
from benchmarks.measuring import random_ids
from benchmarks.prefix import TOY, gradient_difference, report_of


def figures(shared_loss=2.0):
    sizes = {"unshared": (300, 6.0, 2.0), "shared": (100, 4.0, shared_loss)}
    rows = {mode: sizes[mode.split("/")[1]] for mode in MODES}
    return [Measured(mode, 8, size, cpu, 1.0, loss) for mode, (size, cpu, loss) in rows.items()]


@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_both_ways_are_equal_to_ten_digits(name):
    assert 0 < gradient_difference(name) < 1e-10


def test_ratios_are_unshared_over_shared():
    report = report_of(figures(), {"dpo": 1e-15, "grpo": 3e-15})
    assert (report["dpo_time_ratio"], report["grpo_time_ratio"]) == (1.5, 1.5)
    assert (report["dpo_memory_ratio"], report["grpo_memory_ratio"]) == (3, 3)
    assert report["gradient_difference"] == 3e-15
    assert report["grpo_loss_difference"] == 0


def test_ways_that_disagree_about_the_loss_are_not_compared():
    with pytest.raises(LossesDiffer, match="dpo/shared"):
        report_of(figures(shared_loss=2.1), {"dpo": 0.0, "grpo": 0.0})


def test_a_group_has_as_many_rows_as_its_kind_has_answers():
    assert [rows_of(mode) for mode in (*MODES, "plain")] == [2, 2, 8, 8, 1]
    assert random_ids(TOY, 2).shape == (2, TOY.tokens)
    assert KINDS["dpo"].prompt_tokens(2048) == 1536
    assert KINDS["grpo"].prompt_tokens(1280) == 1024


def test_dpo_pulls_chosen_up_and_rejected_down_by_the_same():
    logp_GA = torch.full((2, 3), -2.0, requires_grad=True)
    loss = dpo_loss(logp_GA, logp_GA.detach())
    loss.backward()
    assert_close(loss.detach(), torch.tensor(2.0).log())
    assert_close(logp_GA.grad, torch.tensor([[-0.05] * 3, [0.05] * 3]))


def test_grpo_on_policy_weighs_answers_by_advantage_and_clips_what_went_too_far():
    logp_GA = torch.zeros(2, 1, requires_grad=True)
    grpo_loss(logp_GA, logp_GA.detach()).backward()
    assert_close(logp_GA.grad, torch.tensor([[0.5], [-0.5]]) * 2**-0.5)
    far_GA = torch.tensor([[-1.0], [1.0]], requires_grad=True)  # already where they were sent
    grpo_loss(far_GA, torch.zeros(2, 1)).backward()
    assert not far_GA.grad.any()


@pytest.mark.slow
def test_the_command_prints_one_json_object(monkeypatch, capsys):
    words = ["--json", "--rounds", "1", "--scale", "0.1", "--vocabulary", "512"]
    monkeypatch.setattr(sys, "argv", ["prefix", *words])
    prefix.main()
    report = json.loads(capsys.readouterr().out)
    assert report["grpo_time_ratio"] > 0
    assert report["dpo_loss_difference"] < 1e-3
    assert {case["mode"] for case in report["cases"]} == set(MODES)

"""Rewards become advantages beside the other answers to the same prompt."""

import pytest
import torch

from core.objectives import RewardError, advantages
from core.objectives.advantages import EPSILON

REWARDS = torch.tensor([[1.0, 0.0, 0.0, 1.0], [2.0, 4.0, 6.0, 8.0]])


def test_without_scaling_a_reward_counts_by_its_distance_from_the_mean():
    got = advantages(REWARDS, "none").advantage_PG
    assert got.tolist() == [[0.5, -0.5, -0.5, 0.5], [-3.0, -1.0, 1.0, 3.0]]


def test_by_group_each_prompt_has_its_own_standard_deviation():
    got = advantages(REWARDS, "group").advantage_PG
    for row, spread in zip(got, [(1 / 3) ** 0.5, (20 / 3) ** 0.5], strict=True):
        wanted = torch.tensor([0.5, -0.5, -0.5, 0.5] if spread < 1 else [-3.0, -1.0, 1.0, 3.0])
        torch.testing.assert_close(row, wanted.double() / (spread + EPSILON))


def test_by_batch_all_prompts_share_one():
    got = advantages(REWARDS, "batch").advantage_PG
    spread = REWARDS.double().std().item() + EPSILON
    torch.testing.assert_close(got * spread, advantages(REWARDS, "none").advantage_PG)


@pytest.mark.parametrize("scaling", ["group", "batch", "none"])
@pytest.mark.parametrize("reward", [0.0, 0.1, 1 / 3, -7e12])
def test_a_group_of_equals_is_worth_exactly_nothing(scaling, reward):
    rewards = torch.full((2, 7), reward, dtype=torch.float64)
    rewards[1, 3] += 1.0
    got = advantages(rewards, scaling)
    assert got.advantage_PG[0].tolist() == [0.0] * 7
    assert got.advantage_PG[1, 3] > 0
    assert got.without_signal == 0.5


@pytest.mark.parametrize("scaling", ["group", "batch", "none"])
def test_a_group_sums_to_zero_and_the_level_of_rewards_is_nothing(scaling):
    got = advantages(REWARDS, scaling).advantage_PG
    torch.testing.assert_close(got.sum(1), torch.zeros(2).double())
    torch.testing.assert_close(advantages(REWARDS + 5, scaling).advantage_PG, got)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(value):
    with pytest.raises(RewardError, match="finite"):
        advantages(torch.tensor([[1.0, value]]), "group")


@pytest.mark.parametrize("shape", [(3,), (0, 4), (3, 1)])
def test_an_answer_without_others_has_no_advantage(shape):
    with pytest.raises(RewardError, match="prompts, answers"):
        advantages(torch.zeros(shape), "group")

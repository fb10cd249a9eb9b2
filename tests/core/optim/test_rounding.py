"""Stochastic rounding: right on average, one of the two neighbours, the same bits in a shard."""

import pytest
import torch
from torch import nn

from core.optim import Apollo
from core.optim.rounding import round_to_bfloat16


def round_once(value, step=1, **part):
    return round_to_bfloat16(value, name="w", seed=0, step=step, **part)


@pytest.mark.parametrize("value", [1.001, -1.001, 3e-5, 12345.678])
def test_the_mean_is_the_value_and_each_result_a_neighbour(value):
    count = 200_000
    exact = torch.full((count,), value)
    rounded = round_once(exact).double()
    low, high = rounded.min(), rounded.max()
    assert len(rounded.unique()) == 2
    assert low < exact[0] < high
    assert abs(rounded.mean() - exact[0]) < 4 * (high - low) / count**0.5


def test_what_bfloat16_holds_stays():
    exact = torch.tensor([0.0, -0.0, 1.0, -2.5, 2.0**-130, float("inf"), float("-inf")])
    assert torch.equal(round_once(exact).float(), exact)
    assert round_once(torch.tensor([float("nan")])).isnan().all()


def test_steps_round_with_fresh_bits_and_repeat_exactly():
    value = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(round_once(value), round_once(value))
    assert not torch.equal(round_once(value), round_once(value, step=2))


@pytest.mark.parametrize("bounds", [(0, 8), (3, 29), (13, 100), (40, 40)], ids=str)
def test_a_shard_rounds_as_the_whole(bounds):
    value = torch.randn(100, generator=torch.Generator().manual_seed(0))
    shard = round_once(value[slice(*bounds)], offset=bounds[0])
    assert torch.equal(shard, round_once(value)[slice(*bounds)])


def run_small_steps(**options):
    weight = nn.Parameter(torch.ones(64, 32, dtype=torch.bfloat16))
    optimizer = Apollo([("w", weight)], lr=1e-4, rank=None, **options)
    for _ in range(100):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    return weight.float().mean().item()


def test_small_steps_add_up_under_bfloat16_weights():
    assert run_small_steps() == pytest.approx(0.99, abs=1e-3)


def test_an_update_of_1e_5_is_right_in_expectation_over_1000_draws():
    """A bfloat16 near 1 has neighbours 1/128 away: the step is seen in one draw of 780."""
    draws, lr, ulp = 1000, 1e-5, 2.0**-7
    moved = torch.zeros(64, 32, dtype=torch.float64)
    for draw in range(draws):
        weight = nn.Parameter(torch.ones(64, 32, dtype=torch.bfloat16))
        weight.grad = -torch.ones_like(weight)
        Apollo([("w", weight)], lr=lr, rank=None, eps=1e-12, seed=draw).step()
        moved += weight.double() - 1
    sigma = (lr * ulp / (draws * moved.numel())) ** 0.5
    assert abs(moved.mean() / draws - lr) < 5 * sigma < lr / 10


def test_rounding_to_nearest_loses_them():
    assert run_small_steps(stochastic_rounding=False) == 1.0

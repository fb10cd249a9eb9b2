"""One step of an int8 weight: right on average, the same bits in parts, little memory on the way."""

import pytest
import torch
from torch import nn

from core.optim import APOLLO_MINI, Apollo, Int8Weight, Scale, parts
from core.streambp.peak import LiveBytes


def moved(draws, lr=1e-5, **options):
    """The mean move of a weight by one AdamW step of size `lr` upwards, in units of lr."""
    value = torch.randn(8, 128, generator=torch.Generator().manual_seed(0)) * 0.02
    start = Int8Weight.quantised(value)
    before, total = start.dequantised().double(), torch.zeros(8, 128, dtype=torch.float64)
    for draw in range(draws):
        weight = nn.Parameter(start.clone())
        optimizer = Apollo([("w", weight)], lr=lr, rank=None, eps=1e-12, seed=draw, **options)
        weight.grad = -torch.ones(8, 128)
        optimizer.step()
        total += weight.dequantised().double() - before
    return total / draws / lr


def test_a_small_update_is_right_in_expectation():
    draws = 1000
    mean = moved(draws).mean()
    # A step's share of a code is p = lr / scale, about 0.02, and so its variance is scale * lr.
    sigma = (4.5e-4 / 1e-5 / draws / 1024) ** 0.5
    assert abs(mean - 1) < 5 * sigma


def test_scale_trains_it_too():
    value = torch.randn(16, 128, generator=torch.Generator().manual_seed(0)) * 0.02
    weight = nn.Parameter(Int8Weight.quantised(value))
    plain = nn.Parameter(weight.dequantised())
    for param in (weight, plain):
        param.grad = value.sign()
        Scale([("w", param)], lr=0.01, momentum=None).step()
    assert (weight - plain).abs().max() < weight.scales.max()
    assert (weight - plain).mean().abs() < 0.05 * weight.scales.max()


def test_to_nearest_it_vanishes():
    assert abs(moved(1, stochastic_rounding=False).mean()) < 0.1


def test_a_step_without_a_gradient_leaves_every_bit():
    weight = nn.Parameter(Int8Weight.quantised(torch.randn(16, 256) * 0.02))
    before = weight.detach().clone()
    optimizer = Apollo([("w", weight)], lr=0.1, **APOLLO_MINI)
    for _ in range(3):
        weight.grad = torch.zeros(16, 256)
        optimizer.step()
    assert torch.equal(weight.codes, before.codes)
    assert torch.equal(weight.scales, before.scales)


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
@pytest.mark.parametrize("shape", [(12, 16), (3, 6, 16), (3, 16, 6)], ids=str)
def test_a_step_in_parts_has_the_bits_of_the_whole_and_is_noticed(kind, shape, monkeypatch):
    value, ends = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.02, []
    for elements in (1 << 18, 40):
        monkeypatch.setattr(parts, "_CPU_ELEMENTS", elements)
        weight = nn.Parameter(
            Int8Weight.quantised(value, 8) if kind == "int8" else value.bfloat16()
        )
        version, before = weight._version, weight.detach().clone()
        weight.grad = torch.ones(shape, dtype=weight.dtype)
        Apollo([("w", weight)], lr=1e-3, weight_decay=0.1, **APOLLO_MINI).step()
        assert weight._version > version
        assert not torch.equal(weight + 0, before + 0)
        assert weight.grad.eq(1).all()
        ends.append(weight.detach() + 0)
    assert torch.equal(*ends)


def test_a_step_at_work_is_seen_by_what_follows():
    weight = nn.Parameter(Int8Weight.quantised(torch.ones(4, 16)))
    with weight.at_work():
        weight.sum()
        weight.grad = torch.ones(4, 16)
        Apollo([("w", weight)], lr=0.5, **APOLLO_MINI).step()
        assert torch.equal(weight + 0, weight.dequantised())


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
def test_a_step_makes_little_beside_the_update_itself(kind):
    value = torch.randn(1024, 2048, generator=torch.Generator().manual_seed(0)) * 0.02
    weight = nn.Parameter(Int8Weight.quantised(value) if kind == "int8" else value.bfloat16())
    weight.grad = value.to(weight.dtype)
    optimizer = Apollo([("w", weight)], lr=1e-3, **APOLLO_MINI)
    optimizer.step()
    with LiveBytes() as live:
        optimizer.step()
    assert live.peak < 2 * 4 * value.numel()


def test_weight_decay_shrinks_an_int8_weight_as_a_float_one():
    weight = nn.Parameter(Int8Weight.quantised(torch.randn(16, 256) * 0.02))
    plain = nn.Parameter(weight.dequantised())
    for param in (weight, plain):
        optimizer = Apollo([("w", param)], lr=0.1, weight_decay=1.0, **APOLLO_MINI)
        for _ in range(3):
            param.grad = torch.zeros(16, 256)
            optimizer.step()
    assert (weight.norm() / plain.norm() - 1).abs() < 1e-3

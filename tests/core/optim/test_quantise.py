"""int8 codes and scales: near, exact where they can be, right on average, block by block."""

import pytest
import torch

from core.optim import parts
from core.optim.errors import OptionError
from core.optim.noise import rounding_noise
from core.optim.quantise import check_group, dequantise, quantise


def noise(step=1, name="w", offset=0):
    device = torch.device("cpu")
    return rounding_noise(name=name, seed=0, step=step, device=device, offset=offset)


def there_and_back(value, group=8, drawn=None, dtype=torch.float32):
    return dequantise(*quantise(value, group, drawn), group, dtype)


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 0.02


@pytest.mark.parametrize("shape", [(6, 32), (6, 35), (6, 5), (3, 6, 20), (7,)], ids=str)
def test_nothing_moves_by_more_than_half_a_step_of_its_own_group(shape):
    value = normal(*shape)
    codes, scales = quantise(value, 8)
    assert codes.dtype == torch.int8
    assert scales.shape == (*shape[:-1], -(-shape[-1] // 8))
    step = scales.repeat_interleave(8, -1)[..., : shape[-1]]
    assert ((there_and_back(value) - value).abs() <= 0.5001 * step).all()
    for group in range(scales.shape[-1]):
        own = value[..., 8 * group : 8 * group + 8]
        torch.testing.assert_close(scales[..., group], own.abs().amax(-1) / 127, rtol=2e-5, atol=0)


@pytest.mark.parametrize("drawn", [None, noise()], ids=["nearest", "chance"])
@pytest.mark.parametrize("constant", [0.3, -0.3, 1e-20, 3e38])
def test_a_constant_group_comes_back(constant, drawn):
    value = torch.full((4, 20), constant)
    torch.testing.assert_close(there_and_back(value, drawn=drawn), value, rtol=0.009, atol=0)
    torch.testing.assert_close(there_and_back(value), value, rtol=2e-5, atol=0)


def test_a_group_that_does_not_straddle_zero_keeps_its_values():
    value = torch.linspace(0.30, 0.31, 16).view(2, 8)
    assert ((there_and_back(value) - value).abs() < 0.31 / 253).all()


@pytest.mark.parametrize("drawn", [None, noise()], ids=["nearest", "chance"])
def test_zeros_stay_zeros_beside_anything(drawn):
    value = torch.zeros(2, 16)
    value[1, 8:] = 1e-42  # below what a float32 scale can divide
    back = there_and_back(value, drawn=drawn)
    assert not back[0].any()
    assert not back[1, :8].any()
    assert back.isfinite().all()
    assert not there_and_back(torch.zeros(3, 0)).numel()


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_what_is_not_finite_spoils_its_group_and_no_other(bad):
    value = torch.ones(2, 16)
    value[0, 3] = bad
    back = there_and_back(value)
    assert back[0, :8].isnan().all()
    assert torch.equal(back[0, 8:], back[1, 8:])
    assert back[1].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_dequantised_is_quantised_to_the_same_bits(dtype):
    codes, scales = quantise(normal(64, 100), 32)
    again = quantise(dequantise(codes, scales, 32, dtype), 32)
    assert torch.equal(again[0], codes)
    assert torch.equal(again[1], scales)


def test_a_narrow_dtype_is_the_exact_value_rounded_once():
    codes, scales = quantise(normal(64, 100), 32)
    exact = dequantise(codes, scales, 32, torch.float64)
    assert torch.equal(dequantise(codes, scales, 32).double(), exact)
    assert torch.equal(dequantise(codes, scales, 32, torch.bfloat16), exact.bfloat16())


def test_chance_gives_one_of_two_neighbours_and_the_value_on_average():
    value, draws = normal(4, 40), 4000
    scales = quantise(value, 8)[1].repeat_interleave(8, -1)
    backs = torch.stack([there_and_back(value, drawn=noise(step)) for step in range(draws)])
    assert ((backs - value).abs() < 1.001 * scales).all()
    off = (backs.double().mean(0) - value).abs()
    assert (off < 5 * 0.5 * scales / draws**0.5).all()


def test_chance_draws_by_seed_name_and_step_alone():
    value = normal(8, 32)
    first = quantise(value, 8, noise())[0]
    assert torch.equal(first, quantise(value, 8, noise())[0])
    assert not torch.equal(first, quantise(value, 8, noise(step=2))[0])
    assert not torch.equal(first, quantise(value, 8, noise(name="v"))[0])


@pytest.mark.parametrize("drawn", [None, noise()], ids=["nearest", "chance"])
@pytest.mark.parametrize("shape", [(10, 21), (3, 5, 21)], ids=str)
def test_parts_and_shards_have_the_bits_of_the_whole(monkeypatch, shape, drawn):
    value = normal(*shape)
    codes, scales = quantise(value, 8, drawn)
    back = dequantise(codes, scales, 8, torch.bfloat16)
    monkeypatch.setattr(parts, "_CPU_ELEMENTS", 50)  # two rows at once
    assert torch.equal(quantise(value, 8, drawn)[0], codes)
    assert torch.equal(quantise(value, 8, drawn)[1], scales)
    assert torch.equal(dequantise(codes, scales, 8, torch.bfloat16), back)
    shard = quantise(value[1:], 8, drawn and noise(offset=value[0].numel()))
    assert torch.equal(shard[0], codes[1:])


@pytest.mark.parametrize("group", [0, -128, 96, 128.0, True, None])
def test_a_group_that_is_no_power_of_two_is_refused(group):
    with pytest.raises(OptionError, match=r"group.*power of two"):
        check_group(group)

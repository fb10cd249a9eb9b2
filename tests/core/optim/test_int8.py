"""An int8 weight: a float matrix to everybody, codes and scales in memory."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from core.optim.errors import OptionError, ParameterError
from core.optim.int8 import Int8Weight


def weight(*shape, seed=0, dtype=torch.float32, group=8):
    value = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.1
    return Int8Weight.quantised(value, group, dtype)


def parameter(*shape, **options):
    return nn.Parameter(weight(*shape, **options))


def pair(make, *shape, **options):
    """A module with an int8 weight, and one with the same values."""
    int8, plain = make(), make()
    plain.load_state_dict(int8.state_dict())
    int8.weight = parameter(*shape, **options)
    plain.weight = nn.Parameter(int8.weight.dequantised())
    return int8.to(), plain.to(int8.weight.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_linear_map_answers_and_learns_as_with_the_values(dtype):
    int8, plain = pair(lambda: nn.Linear(20, 12, bias=False), 12, 20, dtype=dtype)
    x = torch.randn(3, 5, 20, dtype=dtype)
    outs = [module(x) for module in (int8, plain)]
    for out in outs:
        out.square().sum().backward()
    assert torch.equal(*outs)
    assert type(int8.weight.grad) is torch.Tensor
    assert torch.equal(int8.weight.grad, plain.weight.grad)


def test_an_embedding_answers_and_learns_as_with_the_values():
    int8, plain = pair(lambda: nn.Embedding(9, 20, padding_idx=0), 9, 20)
    ids = torch.tensor([[0, 3, 8], [8, 1, 0]])
    for module in (int8, plain):
        module(ids).square().sum().backward()
    assert torch.equal(int8(ids), plain(ids))
    with int8.weight.at_work():
        int8.weight.sum()
        assert torch.equal(int8(ids), plain(ids))
    assert torch.equal(int8.weight.grad, plain.weight.grad)


def test_fused_experts_are_indexed_and_multiplied_as_any_tensor():
    fused = parameter(3, 10, 20)
    plain = fused.dequantised().requires_grad_()
    x = torch.randn(4, 20)
    for experts in (fused, plain):
        (
            functional.linear(x, experts[1]).sum() + torch.einsum("bi,eoi->beo", x, experts).sum()
        ).backward()
    assert torch.equal(fused.grad, plain.grad)


def test_what_keeps_int8_and_what_does_not():
    kept = parameter(4, 20)
    for other in (
        kept.detach(),
        kept.clone(),
        kept.data,
        kept.to("cpu", copy=True),
        copy.deepcopy(kept),
    ):
        assert isinstance(other, Int8Weight)
        assert torch.equal(other.codes, kept.codes)
        assert torch.equal(other.scales, kept.scales)
    assert kept.detach().codes is kept.codes
    assert copy.deepcopy(kept).codes is not kept.codes
    assert isinstance(copy.deepcopy(kept), nn.Parameter)
    plains = [
        kept.bfloat16(),
        kept.t(),
        kept[1],
        kept + 0,
        torch.zeros_like(kept),
        torch.empty_like(kept),
        kept.new_empty(3, 2),
        kept.contiguous().view(-1),
    ]
    assert {type(x) for x in plains} == {torch.Tensor}
    assert torch.zeros_like(kept).stride() == (20, 1)
    assert kept.bfloat16().dtype == torch.bfloat16


def test_a_write_is_quantised_to_nearest_and_noticed_by_autograd():
    kept, value = parameter(4, 20), torch.randn(4, 20)
    used = functional.linear(torch.ones(1, 20, requires_grad=True), kept)
    before = kept._version
    with torch.no_grad():
        kept.copy_(value)
        assert kept._version > before
        assert torch.equal(kept.codes, Int8Weight.quantised(value, 8).codes)
        kept.copy_(torch.ones(20))  # broadcast, as for any tensor
        assert torch.allclose(kept, torch.ones(4, 20), rtol=2e-5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        used.sum().backward()


def test_codes_are_copied_as_they_are_and_regrouped_where_groups_differ():
    kept, same, other = weight(4, 20), weight(4, 20, seed=1), weight(4, 20, seed=2, group=4)
    kept.copy_(same)
    assert torch.equal(kept.codes, same.codes)
    assert kept.codes is not same.codes
    kept.copy_(other)
    assert (kept.dequantised() - other.dequantised()).abs().max() < 0.51 * kept.scales.max()
    plain = torch.empty(4, 20)
    assert torch.equal(plain.copy_(kept), kept.dequantised())


CHANGES = {
    "mul_": lambda w: w.mul_(2),
    "add_": lambda w: w.add_(w),
    "out": lambda w: torch.add(torch.ones(4, 20), 1, out=w),
    "foreach": lambda w: torch._foreach_mul_([torch.ones(2), w], 2.0),
    "zero_": nn.init.zeros_,
    "sgd": lambda w: step(torch.optim.SGD([w], lr=0.1)),
    "adamw": lambda w: step(torch.optim.AdamW([w], lr=0.1)),
}


def step(optimizer):
    (w,) = optimizer.param_groups[0]["params"]
    w.grad = torch.ones(4, 20)
    optimizer.step()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_place_that_would_be_lost_is_refused(change):
    kept = parameter(4, 20)
    before = kept.codes.clone()
    with torch.no_grad(), pytest.raises(ParameterError, match="copy_ alone"):
        CHANGES[change](kept)
    assert torch.equal(kept.codes, before)


def test_a_module_moves_with_its_codes_and_refuses_another_compute_dtype():
    module = nn.Linear(20, 4)
    module.weight = parameter(4, 20)
    assert isinstance(module.to("cpu").weight, Int8Weight)
    with pytest.raises(ParameterError, match="compute dtype is chosen when it is quantised"):
        module.bfloat16()
    assert module.weight.dtype == torch.float32
    module.to("meta")
    assert {module.weight.codes.device.type, module.weight.scales.device.type} == {"meta"}


PARTS = {
    "codes": (torch.zeros(4, 20), torch.zeros(4, 3), 8, torch.float32),
    "scales": (torch.zeros(4, 20, dtype=torch.int8), torch.zeros(4, 2), 8, torch.float32),
    "dtype": (torch.zeros(4, 20, dtype=torch.int8), torch.zeros(4, 3), 8, torch.float16),
    "group": (torch.zeros(4, 20, dtype=torch.int8), torch.zeros(4, 3), 7, torch.float32),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_that_do_not_fit_are_refused(part):
    with pytest.raises((ParameterError, OptionError), match=part):
        Int8Weight(*PARTS[part])

"""Norms along either axis, and pieces that a cache holds, are what they are without them."""

import pytest
import torch

from core.optim.adamw import adamw_update
from core.optim.descent import descend
from core.optim.norms import channel_norms, matrix_norms, row_blocks
from core.optim.rounding import round_to_bfloat16

SHAPES = [(1, 1), (7, 5), (700, 900), (3, 900, 700), (2, 0, 4), (0, 4)]


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("axis", [-1, -2])
def test_channel_norms_are_the_norms_along_the_axis(shape, axis):
    value = values(*shape)
    torch.testing.assert_close(channel_norms(value, axis), value.norm(dim=axis, keepdim=True))


def test_a_matrix_s_norm_is_the_norm_of_its_channels_norms():
    value = values(3, 900, 700)
    for axis in (-1, -2):
        torch.testing.assert_close(matrix_norms(channel_norms(value, axis)), matrix_norms(value))


def test_a_large_matrix_s_norm_is_right_to_the_last_digit_but_one():
    value = values(4096, 1024)
    assert matrix_norms(value).item() == pytest.approx(value.double().norm().item(), rel=3e-7)


def test_blocks_are_small_and_together_the_whole():
    value = values(2, 900, 700)
    blocks = [block for (block,) in row_blocks(value)]
    assert len(blocks) > 5
    assert torch.equal(torch.cat(blocks, dim=-2), value)


@pytest.mark.parametrize("factor_shape", [None, (1, 1), (700, 1), (1, 900)], ids=str)
@pytest.mark.parametrize("experts", [(), (2,)], ids=str)
def test_a_weight_moved_in_pieces_has_the_bits_of_one_moved_at_once(factor_shape, experts):
    weight = values(*experts, 700, 900).to(torch.bfloat16)
    direction = values(*experts, 700, 900, seed=1)
    factor = None if factor_shape is None else values(*experts, *factor_shape, seed=2)

    def rounder(value, *, offset):
        return round_to_bfloat16(value, name="w", seed=0, step=1, offset=offset)

    wide = weight.float()
    descend(wide, direction, step_size=0.1, decay=0.01, factor=factor, rounder=None)
    descend(weight, direction, step_size=0.1, decay=0.01, factor=factor, rounder=rounder)
    assert torch.equal(weight, rounder(wide, offset=0))


def test_what_moves_in_pieces_may_be_a_scalar_or_have_four_axes():
    for shape in ((), (5,), (2, 3, 4, 5)):
        weight = values(*shape).to(torch.bfloat16)
        wide, grad = weight.float(), values(*shape, seed=1)
        for one in (weight, wide):
            moments = torch.zeros(shape), torch.zeros(shape)
            options = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.1}
            adamw_update(one, grad, *moments, step=1, lr=0.1, **options)
        assert torch.equal(weight, wide.to(torch.bfloat16))

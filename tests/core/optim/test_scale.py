"""SCALE's step: columns of one length, momentum where it is asked for, AdamW for the rest."""

from functools import partial

import pytest
import torch
from torch import nn

from core.optim import OptionError, Scale


def param_with_grad(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    param = nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
    param.grad = torch.randn(shape, generator=generator).to(dtype)
    return param


def step_of(param, steps=1, **options):
    """Give what the last of some steps took off the parameter, over the learning rate."""
    optimizer = Scale([("w", param)], lr=1e-2, **options)
    for _ in range(steps):
        before = param.detach().clone()
        optimizer.step()
    return (before - param.detach()) / 1e-2


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("shape", [(6, 9), (200, 700), (3, 5, 8)], ids=str)
def test_every_output_s_weights_move_by_a_root_mean_square_of_the_learning_rate(axis, shape):
    param = param_with_grad(*shape)
    update = step_of(param, input_axis=axis)
    sizes = update.square().mean(dim=axis).sqrt()
    torch.testing.assert_close(sizes, torch.ones_like(sizes), rtol=1e-3, atol=1e-3)
    cosines = nn.functional.cosine_similarity(update, param.grad, dim=axis)
    torch.testing.assert_close(cosines, torch.ones_like(cosines))


def test_the_size_of_the_gradient_is_forgotten_output_by_output():
    one, other = param_with_grad(6, 9), param_with_grad(6, 9)
    other.grad *= torch.tensor([1e-3, 1.0, 1e3, 5.0, 7.0, 0.1])[:, None]
    torch.testing.assert_close(step_of(one), step_of(other), rtol=1e-4, atol=1e-4)


def test_momentum_is_the_running_mean_of_gradients_and_is_normalised_after():
    param, mean = param_with_grad(4, 6), torch.zeros(4, 6)
    optimizer = Scale([("w", param)], lr=1e-2, momentum=0.8)
    for seed in range(5):
        param.grad = torch.randn(4, 6, generator=torch.Generator().manual_seed(seed))
        before = param.detach().clone()
        optimizer.step()
        mean = 0.8 * mean + 0.2 * param.grad
    expected = mean / mean.square().mean(dim=-1, keepdim=True).sqrt()
    torch.testing.assert_close((before - param.detach()) / 1e-2, expected, rtol=1e-3, atol=1e-3)


def test_without_momentum_a_matrix_has_no_state_and_with_it_one_moment():
    for momentum, held in ((None, 0), (0.9, 24)):
        param = param_with_grad(4, 6)
        optimizer = Scale([("w", param)], lr=1e-2, momentum=momentum)
        optimizer.step()
        tensors = [x for x in optimizer.state[param].values() if torch.is_tensor(x)]
        assert sum(x.numel() for x in tensors) == held


def test_a_token_that_was_not_seen_does_not_move_and_the_others_do():
    param = param_with_grad(4, 6)
    param.grad[2] = 0.0
    update = step_of(param)
    assert not update[2].any()
    assert update[[0, 1, 3]].abs().min() > 0


@pytest.mark.parametrize(
    ("shape", "axis"), [((7,), -1), ((), -1), ((2, 3, 4, 5), -1), ((4, 3), None)]
)
def test_vectors_and_groups_without_an_input_axis_take_adamw_as_torch_has_it(
    shape, axis, steps_like_adamw
):
    steps_like_adamw(partial(Scale, input_axis=axis), shape)


def test_weight_decay_shrinks_by_lr_times_decay():
    plain, decayed = param_with_grad(4, 6), param_with_grad(4, 6)
    start = plain.detach().clone()
    difference = step_of(decayed, weight_decay=0.5) - step_of(plain)
    torch.testing.assert_close(difference, 0.5 * start, rtol=1e-3, atol=1e-3)


def test_small_steps_add_up_under_bfloat16_weights():
    def mean_after(**options):
        weight = nn.Parameter(torch.ones(64, 32, dtype=torch.bfloat16))
        optimizer = Scale([("w", weight)], lr=1e-4, **options)
        for _ in range(100):
            weight.grad = torch.ones_like(weight)
            optimizer.step()
        return weight.float().mean().item()

    assert mean_after() == pytest.approx(0.99, abs=1e-3)
    assert mean_after(stochastic_rounding=False) == 1.0


@pytest.mark.parametrize(
    ("field", "value"),
    [("input_axis", 0), ("input_axis", -3), ("momentum", 1.0), ("momentum", -0.1), ("rank", 4)],
)
def test_an_option_out_of_range_or_of_another_optimizer_is_refused(field, value):
    with pytest.raises(OptionError, match=f"^{field} = "):
        Scale([{"params": [("w", param_with_grad(3, 2))], field: value}], lr=1e-3)


def test_a_tiny_model_learns(tiny_model, train):
    model = tiny_model()
    optimizer = Scale(model.named_parameters(), lr=3e-3)
    losses = [train(model, optimizer, 0, 1)[0] for _ in range(200)]
    assert losses[-1] < losses[0] / 4

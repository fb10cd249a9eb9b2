"""What one APOLLO step does to matrices, experts and vectors, and what the reference got wrong."""

from functools import partial

import pytest
import torch
from torch import nn

from core.optim import APOLLO_MINI, Apollo


def param_with_grad(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    param = nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
    param.grad = torch.randn(shape, generator=generator).to(dtype)
    return param


def moved(param, optimizer):
    before = param.detach().clone()
    optimizer.step()
    return (param.detach() - before).norm().item()


@pytest.mark.parametrize("options", [{"rank": 2}, APOLLO_MINI], ids=["apollo", "mini"])
@pytest.mark.parametrize("size", [0.0, 1e-12, 1e-11])
def test_a_silent_step_does_not_hold_the_parameter_down(options, size):
    param = param_with_grad(8, 6)
    optimizer = Apollo([("weight", param)], lr=1e-2, **options)
    usual = [moved(param, optimizer) for _ in range(3)][-1]
    grad = param.grad.clone()
    param.grad = grad * size
    optimizer.step()
    param.grad = grad
    assert moved(param, optimizer) > usual / 3


@pytest.mark.parametrize("size", [0.0, 1e-13])
def test_a_silent_first_step_does_not_hold_the_parameter_down(size):
    param = param_with_grad(8, 6)
    optimizer = Apollo([("weight", param)], lr=1e-2, rank=2)
    grad = param.grad.clone()
    param.grad = grad * size
    assert moved(param, optimizer) < 1e-9
    param.grad = grad
    assert moved(param, optimizer) > 1e-2


def test_both_halves_of_lora_move_although_b_starts_at_zero():
    generator = torch.Generator().manual_seed(0)
    lora_a = nn.Parameter(torch.randn(4, 12, generator=generator))
    lora_b = nn.Parameter(torch.zeros(9, 4))
    start_a = lora_a.detach().clone()
    optimizer = Apollo([("a", lora_a), ("b", lora_b)], lr=1e-2, **APOLLO_MINI)
    inputs, targets = torch.randn(2, 16, 12, generator=generator).split(1)
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.mse_loss(inputs @ lora_a.T @ lora_b.T, targets[..., :9]).backward()
        optimizer.step()
    assert lora_b.norm() > 0.01
    assert (lora_a - start_a).norm() > 0.01


def test_an_update_grows_by_the_limit_at_most():
    param = param_with_grad(8, 6)
    options = {"lr": 1e-2, "rank": 2, "bias_correction": False}
    free, limited = [
        Apollo([("w", param)], growth_limit=limit, **options) for limit in (None, 1.01)
    ]
    first, second = moved(param, free), moved(param, free)
    assert second > 1.3 * first  # the moments of one gradient, seen twice
    first, second = moved(param, limited), moved(param, limited)
    assert second == pytest.approx(1.01 * first, rel=1e-4)


@pytest.mark.parametrize("options", [{"rank": 2}, APOLLO_MINI], ids=["apollo", "mini"])
def test_the_scale_multiplies_each_update_also_where_the_limiter_holds(options):
    def path(scale):
        param = param_with_grad(8, 6)
        optimizer = Apollo([("w", param)], lr=1e-2, **options | {"scale": scale})
        steps = []
        for seed in range(4):
            param.grad = (seed + 1.0) * param_with_grad(8, 6, seed=seed).grad
            steps.append(moved(param, optimizer))
        return torch.tensor(steps)

    torch.testing.assert_close(path(4.0), 2.0 * path(1.0), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("options", [{"rank": 2}, APOLLO_MINI], ids=["apollo", "mini"])
def test_each_fused_expert_steps_as_a_matrix_of_its_own_would(options):
    fused = param_with_grad(3, 7, 5)
    single = [nn.Parameter(matrix.detach().clone()) for matrix in fused]
    projections = torch.randn(3, 5, options["rank"], generator=torch.Generator().manual_seed(1))

    def injected(name, shape, *_, **__):
        return projections if len(shape) == 3 else projections[int(name)]

    together = Apollo([("experts", fused)], lr=1e-2, projector=injected, **options)
    apart = Apollo(
        [(str(i), param) for i, param in enumerate(single)], lr=1e-2, projector=injected, **options
    )
    for step in range(4):
        fused.grad = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(step))
        fused.grad[step % 3] *= step % 2  # now and then an expert without tokens
        for param, grad in zip(single, fused.grad, strict=True):
            param.grad = grad.clone()
        together.step()
        apart.step()
    torch.testing.assert_close(fused, torch.stack(list(single)))


def test_a_matrix_and_its_transpose_step_alike():
    tall, wide = param_with_grad(9, 5), param_with_grad(9, 5)
    wide = nn.Parameter(wide.detach().T.clone())
    wide.grad = tall.grad.T.clone()
    for param in (tall, wide):
        Apollo([("same name", param)], lr=1e-2, rank=3).step()
    torch.testing.assert_close(tall, wide.T)


@pytest.mark.parametrize("shape", [(7,), (), (2, 3, 4, 5)], ids=str)
def test_what_is_no_matrix_takes_adamw_as_torch_has_it(shape, steps_like_adamw):
    steps_like_adamw(partial(Apollo, rank=2), shape)


def test_a_matrix_in_a_group_without_rank_takes_adamw():
    matrix, vector = param_with_grad(4, 3), nn.Parameter(torch.empty(12))
    with torch.no_grad():
        vector.copy_(matrix.flatten())
    vector.grad = matrix.grad.flatten()
    Apollo([("m", matrix)], lr=1e-2, rank=None).step()
    Apollo([("v", vector)], lr=1e-2).step()
    assert torch.equal(matrix.flatten(), vector)


@pytest.mark.parametrize("shape", [(4, 20), (20, 4), (3, 4, 20)], ids=str)
def test_a_rank_above_the_smaller_side_is_capped(shape):
    param = param_with_grad(*shape)
    optimizer = Apollo([("w", param)], lr=1e-2, rank=256)
    optimizer.step()
    assert optimizer.state[param]["exp_avg"].numel() == param.numel()


def test_names_and_seeds_give_different_paths_for_equal_weights():
    def run(name, seed):
        param = param_with_grad(8, 6)
        Apollo([(name, param)], lr=1e-2, rank=2, seed=seed).step()
        return param.detach()

    assert torch.equal(run("a", 0), run("a", 0))
    assert not torch.equal(run("a", 0), run("b", 0))
    assert not torch.equal(run("a", 0), run("a", 1))


def test_weight_decay_shrinks_by_lr_times_decay_and_its_order_matters():
    def run(**options):
        param = param_with_grad(8, 6)
        start = param.detach().clone()
        Apollo([("w", param)], lr=1e-2, rank=2, **options).step()
        return start, param.detach() - start

    start, update = run()
    _, before = run(weight_decay=0.5)
    _, after = run(weight_decay=0.5, decay_after_update=True)
    torch.testing.assert_close(before, update - 0.005 * start)
    torch.testing.assert_close(after, update - 0.005 * (start + update))


def test_parameters_step_one_by_one_as_they_do_together(tiny_model, apollo, train):
    together, apart = tiny_model(), tiny_model()
    optimizers = apollo(together), apollo(apart)
    train(together, optimizers[0], 0, 2)
    for param in apart.parameters():
        param.register_post_accumulate_grad_hook(optimizers[1].step_parameter)
    optimizers[1].step = lambda: None
    train(apart, optimizers[1], 0, 2)
    for left, right in zip(together.parameters(), apart.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("added_later", [True, False])
def test_a_parameter_unfrozen_later_joins_in(tiny_model, train, added_later):
    model = tiny_model()
    late = model.down.weight.requires_grad_(False)
    start = late.detach().clone()
    named = [(n, p) for n, p in model.named_parameters() if p is not late or not added_later]
    optimizer = Apollo(named, lr=1e-2, rank=2)
    train(model, optimizer, 0, 2)
    assert torch.equal(late, start)
    late.requires_grad_(True)
    if added_later:
        optimizer.add_param_group({"params": [("down.weight", late)]})
    train(model, optimizer, 2, 4)
    assert not torch.equal(late, start)
    assert optimizer.state[late]["step"] == 2


def test_a_tiny_model_learns(tiny_model, apollo, train):
    model = tiny_model()
    optimizer = apollo(model, lr=3e-2)
    losses = [train(model, optimizer, 0, 1)[0] for _ in range(60)]
    assert losses[-1] < losses[0] / 4


def test_a_sparse_gradient_is_refused():
    table = nn.Embedding(5, 3, sparse=True)
    optimizer = Apollo(table.named_parameters(), lr=1e-2)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="weight = 'sparse gradient'"):
        optimizer.step()

"""One pass over the head for a linear objective, against the two passes of any objective."""

import copy
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from core.streambp import attach, backward_linear
from core.streambp.errors import TargetError

HEADS = {
    "llama": {"tie_word_embeddings": True},
    "gemma2": {},
    "granite": {"tie_word_embeddings": False},
}


def linear_run(model, data, head=8, weight_BT=None, watching=nullcontext()):  # noqa: B008  stateless
    """Log-probabilities and gradients in one pass; what `.grad` held before stays in the sum."""
    weight_BT = data.weight_BT if weight_BT is None else weight_BT
    with attach(model, chunk_tokens=4), watching:
        logp = backward_linear(
            model, data.ids_BT, data.targets_BT, data.layout, weight_BT, head_chunk_tokens=head
        )
    grads = {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    return logp, grads


@pytest.mark.parametrize("family", HEADS)
def test_one_pass_gives_the_gradient_of_two(family, tiny, batch, streamed_run, assert_same):
    model, data = tiny(family, **HEADS[family]), batch()
    want = streamed_run(model, data, 4)
    assert_same(linear_run(model, data, head=5), want, 1e-10)


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_accumulate_over_calls(tied, tiny, batch, assert_same):
    model, data = tiny("llama", tie_word_embeddings=tied), batch()
    linear_run(model, data)
    for p in model.parameters():
        p.grad = p.grad.clone()
    logp, twice = linear_run(model, data)
    once = linear_run(copy.deepcopy(_without_grads(model)), data)
    assert_same((logp, {name: g / 2 for name, g in twice.items()}), once, 1e-10)


def test_the_output_runs_once_per_tile_and_a_watched_one_stays_exact(tiny, batch, assert_same):
    model, data, calls = tiny("llama"), batch(), []
    want = linear_run(copy.deepcopy(model), data)
    model.lm_head.register_forward_hook(lambda *_: calls.append(1))
    with attach(model, chunk_tokens=4):
        calls.clear()
        logp = backward_linear(
            model, data.ids_BT, data.targets_BT, data.layout, data.weight_BT, head_chunk_tokens=8
        )
    assert len(calls) == 2  # 16 scored tokens
    assert_same((logp, {n: p.grad for n, p in model.named_parameters()}), want, 1e-10)


def test_the_weights_own_gradient_is_the_buffer_unless_somebody_watches(tiny, batch):
    model, data, seen = tiny("llama", tie_word_embeddings=False), batch(), []
    weight = model.lm_head.weight
    weight.grad = torch.zeros_like(weight)
    before = weight.grad.data_ptr()
    linear_run(model, data)
    assert weight.grad.data_ptr() == before
    assert bool(weight.grad.any())
    want, weight.grad = weight.grad, None
    weight.register_hook(seen.append)
    linear_run(model, data)
    torch.testing.assert_close(seen, [want])
    torch.testing.assert_close(weight.grad, want)


class Products(TorchDispatchMode):
    """Collects the shapes of what matrix products make."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default:
            self.shapes.append(tuple(out.shape))
        return out


def test_no_layer_makes_a_gradient_beside_the_one_it_adds_to(tiny, batch, assert_same):
    model, data = tiny("qwen2", tie_word_embeddings=False), batch()
    weight = model.model.layers[0].mlp.up_proj.weight
    products = Products()
    want = linear_run(copy.deepcopy(model), data, watching=products)
    assert tuple(weight.shape) not in products.shapes
    seen = []
    weight.register_hook(seen.append)  # a watched one goes through autograd
    products = Products()
    got = linear_run(model, data, watching=products)
    assert products.shapes.count(tuple(weight.shape)) == 3  # chunks
    assert len(seen) == 1
    assert_same(got, want, 1e-12)


@pytest.mark.parametrize("frozen", ["weight", "bias"])
def test_half_a_linear_map_may_be_frozen(frozen, tiny, batch, streamed_run, assert_same):
    model, data = tiny("qwen2"), batch()
    getattr(model.model.layers[0].self_attn.q_proj, frozen).requires_grad_(False)
    want = streamed_run(model, data, 4)
    assert_same(linear_run(model, data), want, 1e-10)


def test_under_autocast_casts_are_autograds_business(tiny, batch, assert_same):
    model, data = tiny("llama").float(), batch()
    data = replace(data, weight_BT=data.weight_BT.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = linear_run(copy.deepcopy(model), data)
        for parameter in model.parameters():
            parameter.register_hook(lambda _: None)  # watched: nothing goes straight
        want = linear_run(model, data)
    assert_same(got, want, 2e-2)


def test_only_the_head_learns_where_all_else_is_frozen(tiny, batch):
    model, data = tiny("llama", tie_word_embeddings=False), batch()
    _, want = linear_run(copy.deepcopy(model), data)
    model.requires_grad_(False)
    model.lm_head.requires_grad_()
    _, got = linear_run(model, data)
    assert list(got) == ["lm_head.weight"]
    torch.testing.assert_close(got["lm_head.weight"], want["lm_head.weight"])


def test_a_weight_of_another_shape_is_refused(tiny, batch):
    model, data = tiny("llama"), batch()
    with pytest.raises(TargetError, match="weight"):
        linear_run(model, data, weight_BT=data.weight_BT[:, :-1])
    assert all(p.grad is None for p in model.parameters())


def test_without_gradients_torch_itself_refuses(tiny, batch):
    model, data = tiny("llama"), batch()
    with torch.no_grad(), pytest.raises(RuntimeError, match="does not require grad"):
        linear_run(model, data)


def _without_grads(model: nn.Module) -> nn.Module:
    for p in model.parameters():
        p.grad = None
    return model

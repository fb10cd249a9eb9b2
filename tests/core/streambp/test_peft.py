"""peft's layers in a streamed model: gradients are those of plain autograd, and only they get any."""

import copy

import pytest
import torch
from torch import nn

from core.models.adapter import with_adapter
from core.optim import FusedStep, quantise_model
from core.spec.adapter import LoraSpec
from core.spec.optimizer import ApolloMiniSpec
from core.streambp import attach, backward_linear, token_logps
from core.streambp.widen import Widened
from core.train.optimizer import optimizer_of

CHUNK = 4


@pytest.fixture
def adapted(tiny):
    """A tiny float64 model with an adapter whose B is not zero."""

    def build(family, **spec):
        model = tiny(family)
        with_adapter(model, LoraSpec(rank=3, **spec), seed=0, base=family)
        generator = torch.Generator().manual_seed(0)
        for param in trained(model).values():
            noise = torch.randn(param.shape, generator=generator, dtype=param.dtype)
            param.data.add_(noise, alpha=0.2)
        return model

    return build


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def linear(model, data, settle=None):
    scored = data.ids_BT, data.targets_BT, data.layout, data.weight_BT
    with attach(model, chunk_tokens=CHUNK):
        logp = backward_linear(model, *scored, head_chunk_tokens=5, settle=settle)
    return logp, {name: p.grad for name, p in trained(model).items()}


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "mixtral", "gpt_oss"])
def test_gradients_in_two_passes_and_in_one_equal_plain_autograd(
    family, adapted, batch, plain_run, streamed_run, assert_same
):
    model, data = adapted(family), batch()
    with Widened():  # routers of experts choose in float32
        want = plain_run(model, data)
        assert all(".lora_" in name and float(grad.norm()) > 0 for name, grad in want[1].items())
        assert_same(streamed_run(model, data, CHUNK), want, 5e-6)
        assert_same(linear(model, data), want, 5e-6)
    assert all(p.grad is None for p in model.parameters() if not p.requires_grad)


def test_linear_layers_inside_peft_s_send_gradients_straight(adapted):
    model = adapted("llama")
    with attach(model, chunk_tokens=CHUNK):
        layer = model.model.layers[0].self_attn.q_proj
        inner = [m for m in layer.modules() if isinstance(m, nn.Linear)]
        assert len(inner) == 3
        assert all("forward" in m.__dict__ for m in inner)
    assert not any("forward" in m.__dict__ for m in inner)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mixtral"])
@pytest.mark.parametrize("int8", [False, True])
def test_a_fused_step_leaves_the_bits_of_a_step_after_the_pass(family, int8, tiny, batch):
    model, data = tiny(family).float(), batch()
    data.weight_BT.data = data.weight_BT.float()
    if int8:
        quantise_model(model)
    with_adapter(model, LoraSpec(rank=3), seed=0, base=family)
    apart = copy.deepcopy(model)
    after, fused = (optimizer_of(ApolloMiniSpec(), m, rate=0.1, seed=0) for m in (apart, model))
    for _ in range(2):
        linear(apart, data)
        after.step()
        after.zero_grad()
        settle = FusedStep(fused)
        linear(model, data, settle)
        settle.finish()
    want = trained(apart)
    assert all(torch.equal(p, want[name]) for name, p in trained(model).items())


def test_dropout_draws_the_same_mask_in_both_walks(adapted, batch):
    model, data, step = adapted("llama", dropout=0.3).train(), batch(), 1e-6

    def loss(of, *, backward=False):
        torch.manual_seed(5)
        with attach(of, chunk_tokens=CHUNK):
            logp = token_logps(of, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=5)
            value = (logp * data.weight_BT).sum()
            if backward:
                value.backward()
        return value.detach()

    with Widened():  # differences so small would drown in the families' own casts
        loss(model, backward=True)
        params = trained(model)
        generator = torch.Generator().manual_seed(3)
        along = {
            n: torch.randn(p.shape, generator=generator, dtype=p.dtype) for n, p in params.items()
        }
        slope = sum((params[name].grad * d).sum() for name, d in along.items())
        sides = []
        for sign in (1, -1):
            moved = copy.deepcopy(model)
            with torch.no_grad():
                for name, param in trained(moved).items():
                    param.add_(along[name], alpha=sign * step)
                sides.append(loss(moved))
    torch.testing.assert_close(slope, (sides[0] - sides[1]) / (2 * step), rtol=1e-5, atol=1e-5)
    assert not torch.equal(loss(model.eval()), loss(model.train()))

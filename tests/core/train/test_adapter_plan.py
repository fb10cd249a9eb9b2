"""Frozen weights have no gradient and no optimizer state, and the memory plan knows it."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from core.models.adapter import with_adapter
from core.optim import quantise_model
from core.spec.adapter import LoraSpec
from core.spec.optimizer import AdamWSpec, ApolloMiniSpec
from core.streambp import Layout, attach, backward_linear
from core.streambp.peak import LiveBytes
from core.streambp.plan import Wish, footprint, memory_plan, meta_model
from core.train.cost import weighed
from core.train.optimizer import optimizer_of

ADAPTER = LoraSpec(rank=8)
CHUNK, HEAD, TOKENS = 128, 64, 1024


def config():
    return Qwen3Config(
        hidden_size=128, intermediate_size=336, num_hidden_layers=6, vocab_size=2000,
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, tie_word_embeddings=False,
    )  # fmt: skip


def adapt(model):
    with_adapter(model, ADAPTER, seed=0, base="")


def real(dtype, *, int8=False):
    torch.set_num_threads(1)
    model = Qwen3ForCausalLM(config()).to(dtype).train()
    if int8:
        quantise_model(model)
    adapt(model)
    return model


def size(params):
    return sum(p.numel() * p.element_size() for p in params)


@pytest.mark.parametrize("chosen", [AdamWSpec(), ApolloMiniSpec()], ids=lambda x: x.kind)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_weights_gradients_and_state_are_counted_to_the_byte(chosen, precision):
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model = real(dtype, int8=precision == "int8")
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(chosen, model, rate=0.1, seed=0)
    for param in trained:
        param.grad = torch.ones_like(param)
    optimizer.step()
    held = [x for state in optimizer.state.values() for x in state.values()]
    wish = weighed(Wish(HEAD), meta_model(config(), dtype), chosen, precision, "cpu", ADAPTER)
    found = footprint(config(), dtype=dtype, chunk_tokens=CHUNK, change=adapt)
    phase = memory_plan(found, TOKENS, wish).phases[1]
    assert phase.gradients == size(trained)
    assert phase.optimizer == size(x for x in held if torch.is_tensor(x) and x.ndim)
    if precision == "int8":
        plain = sum(
            p.codes.nbytes + p.scales.nbytes for p in model.parameters() if hasattr(p, "codes")
        )
        assert phase.weights == plain + size(
            p for p in model.parameters() if not hasattr(p, "codes")
        )
    else:
        assert phase.weights == size(model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_predicted_and_measured_agree_within_15_percent(dtype):
    model = real(dtype)
    for param in model.parameters():
        param.grad = torch.zeros_like(param) if param.requires_grad else None
    ids = torch.randint(0, 2000, (1, TOKENS + 1), generator=torch.Generator().manual_seed(0))
    layout, weight = Layout.causal([TOKENS], TOKENS), torch.full((1, TOKENS), -1 / TOKENS)
    attach(model, chunk_tokens=CHUNK)
    with LiveBytes() as live:
        backward_linear(model, ids[:, :-1], ids[:, 1:], layout, weight, head_chunk_tokens=HEAD)
    found = footprint(config(), dtype=dtype, chunk_tokens=CHUNK, change=adapt)
    plan = memory_plan(found, TOKENS, Wish(HEAD))
    above = max(p.total - p.weights - p.gradients - p.margin for p in plan.phases)
    assert above == pytest.approx(live.peak, rel=0.15)


def test_experts_with_adapters_are_measured_as_planned_too():
    def experts():
        return Qwen3MoeConfig(
            hidden_size=128, moe_intermediate_size=96, num_experts=8, num_experts_per_tok=2,
            num_hidden_layers=3, vocab_size=500, num_attention_heads=4, num_key_value_heads=2,
            head_dim=32,
        )  # fmt: skip

    torch.set_num_threads(1)
    model = Qwen3MoeForCausalLM(experts()).to(torch.bfloat16).train()
    adapt(model)
    for param in model.parameters():
        param.grad = torch.zeros_like(param) if param.requires_grad else None
    ids, layout = torch.ones(1, 512, dtype=torch.long), Layout.causal([512], 512)
    attach(model, chunk_tokens=CHUNK)
    with LiveBytes() as live:
        backward_linear(model, ids, ids, layout, torch.full((1, 512), -0.1), head_chunk_tokens=HEAD)
    found = footprint(experts(), dtype=torch.bfloat16, chunk_tokens=CHUNK, change=adapt)
    plan = memory_plan(found, 512, Wish(HEAD))
    above = max(p.total - p.weights - p.gradients - p.margin for p in plan.phases)
    assert above == pytest.approx(live.peak, rel=0.15)


def test_an_adapter_needs_less_than_training_all_weights():
    whole = footprint(config(), dtype=torch.bfloat16, chunk_tokens=CHUNK)
    small = footprint(config(), dtype=torch.bfloat16, chunk_tokens=CHUNK, change=adapt)
    for fused in (False, True):
        wish = replace(Wish(HEAD), fused=fused)
        plans = [memory_plan(found, TOKENS, wish) for found in (small, whole)]
        pairs = zip(plans[0].phases, plans[1].phases, strict=True)
        assert all(a.gradients + a.head <= b.gradients + b.head for a, b in pairs)
        assert plans[0].phases[2].total < plans[1].phases[2].total

"""The memory plan says what a step will need, before there are weights."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoConfig, GPT2Config, Qwen3Config, Qwen3ForCausalLM

from core.optim import APOLLO_MINI, Apollo, FusedStep, parameter_groups
from core.spec.optimizer import ApolloMiniSpec
from core.streambp import Layout, attach, backward_linear, token_logps
from core.streambp.peak import LiveBytes
from core.streambp.plan import PlanError, StepCost, Wish, footprint, longest_context, memory_plan
from core.train.cost import step_cost

CHUNK, HEAD = 128, 64
WISH = Wish(head_chunk_tokens=HEAD)


def config(**changed):
    return Qwen3Config(**{
        "hidden_size": 128, "intermediate_size": 336, "num_hidden_layers": 6, "vocab_size": 2000,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "tie_word_embeddings": False, **changed,
    })  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return footprint(config(), dtype=torch.float32, chunk_tokens=CHUNK)


def measured(tokens, rows, keep, *, linear=True, dtype=torch.float32, **changed):
    """Bytes of live tensors above weights and gradients at the peak of a real step."""
    torch.set_num_threads(1)
    model = Qwen3ForCausalLM(config(**changed)).to(dtype).train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    ids = torch.randint(0, 2000, (rows, tokens + 1), generator=torch.Generator().manual_seed(0))
    attach(model, chunk_tokens=CHUNK, keep=keep)
    weight = torch.full((rows, tokens), -1 / (rows * tokens))

    given = (model, ids[:, :-1], ids[:, 1:], Layout.causal([tokens] * rows, tokens))
    with LiveBytes() as live:
        if linear:
            backward_linear(*given, weight, head_chunk_tokens=HEAD)
        else:
            (token_logps(*given, head_chunk_tokens=HEAD) * weight).sum().backward()
    return live.peak


def above(plan):
    """What is planned above weights, gradients and the allocator's margin."""
    return max(p.total - p.weights - p.gradients - p.optimizer - p.margin for p in plan.phases)


@pytest.mark.parametrize(
    ("tokens", "rows", "keep"),
    [
        (1024, 1, "hidden"), (512, 1, "hidden"), (600, 3, "hidden"),
        (1024, 1, "hidden+kv"), (1024, 1, "hidden+attention"),
    ],
)  # fmt: skip
def test_predicted_and_measured_agree_within_15_percent(tokens, rows, keep, small):
    plan = memory_plan(small, tokens, replace(WISH, rows=rows, keep=keep))
    assert above(plan) == pytest.approx(measured(tokens, rows, keep), rel=0.15)


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_also_with_a_large_head_in_either_pass_and_dtype(linear, tied, dtype):
    large = {"tie_word_embeddings": tied, "vocab_size": 8000}
    found = footprint(config(**large), dtype=dtype, chunk_tokens=CHUNK)
    plan = memory_plan(found, 1024, replace(WISH, linear=linear))
    got = measured(1024, 1, "hidden", linear=linear, dtype=dtype, **large)
    assert above(plan) == pytest.approx(got, rel=0.15)


def test_the_longest_context_fits_and_one_token_more_does_not(small):
    budget = memory_plan(small, 5000, WISH).total
    longest = longest_context(small, WISH, budget)
    assert longest >= 5000
    assert memory_plan(small, longest, WISH).total <= budget
    assert memory_plan(small, longest + 1, WISH).total > budget


def test_a_budget_too_small_for_one_chunk_is_refused(small):
    with pytest.raises(PlanError, match="one chunk of 128 tokens needs"):
        longest_context(small, WISH, 2**20)


def test_states_stored_elsewhere_do_not_count_with_the_number_of_layers(small):
    deep = replace(small, layers=small.layers * 10)
    kept = [memory_plan(m, 4096, replace(WISH, store="cpu")).phases[1] for m in (small, deep)]
    assert kept[0].kept_states == kept[1].kept_states == 2 * 4096 * 128 * 4


def test_every_byte_of_weights_is_counted_and_none_is_allocated(small):
    weights = sum(p.numel() * 4 for p in Qwen3ForCausalLM(config()).parameters())
    assert small.weights == weights
    plan = memory_plan(small, 64, replace(WISH, step=StepCost(7, 11)))
    assert [(p.weights, p.gradients, p.optimizer) for p in plan.phases] == [
        (weights, weights, 7), (weights, weights, 7), (weights, weights, 18),
    ]  # fmt: skip


def test_the_fused_step_holds_the_gradients_of_one_layer(small):
    plan = memory_plan(small, 64, replace(WISH, fused=True))
    assert plan.phases[1].gradients == small.layers[0].parameters
    assert plan.phases[2].gradients == 2000 * 128 * 4


def test_attention_that_no_kernel_takes_pays_for_its_scores():
    plain = GPT2Config(attn_pdrop=0.0)
    dropping = GPT2Config(attn_pdrop=0.1)
    found = [footprint(c, dtype=torch.float32, chunk_tokens=CHUNK) for c in (plain, dropping)]
    chunks = [memory_plan(m, 4096, WISH).phases[1].chunk for m in found]
    assert chunks[1] - chunks[0] >= 12 * CHUNK * 4096 * 4  # heads x queries x keys, once at least


def test_a_mixture_of_experts_can_be_planned_without_weights():
    big = AutoConfig.for_model("qwen3_moe")
    found = footprint(big, dtype=torch.bfloat16, chunk_tokens=512)
    assert found.weights > 20 * 2**30
    assert memory_plan(found, 8192, WISH).total > found.weights


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_a_fused_step_the_peak_of_everything_above_the_weights(tied, dtype):
    large = {"tie_word_embeddings": tied, "vocab_size": 4000, "num_hidden_layers": 8}
    model = Qwen3ForCausalLM(config(**large)).to(dtype).train()
    optimizer = Apollo(parameter_groups(model, embeddings="apollo"), lr=1e-3, **APOLLO_MINI)
    step = FusedStep(optimizer)
    attach(model, chunk_tokens=CHUNK)
    ids = torch.randint(0, 2000, (1, 385), generator=torch.Generator().manual_seed(0))
    given = (model, ids[:, :-1], ids[:, 1:], Layout.causal([384], 384), torch.full((1, 384), -0.01))

    def once():
        backward_linear(*given, head_chunk_tokens=HEAD, settle=step)
        step.finish()

    once()  # makes the state
    with LiveBytes() as live:
        once()
    found = footprint(config(**large), dtype=dtype, chunk_tokens=CHUNK)
    cost = replace(
        step_cost(
            model,
            ApolloMiniSpec(embeddings="apollo"),
            foreach=False,
            rounded=dtype != torch.float32,
        ),
        state=0,
    )
    phases = memory_plan(found, 384, replace(WISH, fused=True, step=cost)).phases
    planned = max(p.total - p.weights - p.margin for p in phases)
    assert planned == pytest.approx(live.peak, rel=0.15)

"""What is only scored, and what is sampled, is in the plan: within 15 percent of what is measured."""

from dataclasses import replace

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from core.rollout import PolicySampler, Sampling, Stream
from core.streambp import Layout, answer_logps, attach, token_logps
from core.streambp.peak import LiveBytes
from core.streambp.plan import Drawn, Wish, footprint, memory_plan

CHUNK, HEAD = 64, 32
WISH = Wish(head_chunk_tokens=HEAD)
DTYPES = (torch.float32, torch.bfloat16)


def config():
    return Qwen3Config(
        hidden_size=128, intermediate_size=336, num_hidden_layers=4, vocab_size=500, head_dim=32,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip


def model_of(dtype):
    torch.set_num_threads(1)
    return Qwen3ForCausalLM(config()).to(dtype).eval()


def phase_of(dtype, name, **wish):
    found = footprint(config(), dtype=dtype, chunk_tokens=CHUNK)
    plan = memory_plan(found, 64, replace(WISH, **wish))
    return next(phase for phase in plan.phases if phase.name == name)


def moving(phase):
    return phase.total - phase.weights - phase.optimizer - phase.margin


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "tokens"), [(1, 768), (4, 256), (16, 32)])
def test_a_pass_that_is_only_scored(rows, tokens, dtype):
    model = model_of(dtype)
    attach(model, chunk_tokens=CHUNK)
    ids = torch.randint(0, 500, (rows, tokens + 1), generator=torch.Generator().manual_seed(0))
    layout = Layout.causal([tokens] * rows, tokens)
    with torch.no_grad(), LiveBytes() as live:
        token_logps(model, ids[:, :-1], ids[:, 1:], layout, head_chunk_tokens=HEAD)
    phase = phase_of(dtype, "scoring", scored=((rows, tokens),))
    assert moving(phase) == pytest.approx(live.peak, rel=0.15)
    assert phase.gradients == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("lengths", "group", "completion"),
    [
        ((40,), 16, 40),  # the cache
        ((512,), 2, 4),  # a prompt that is read whole
        ((32, 24), 16, 8),  # answers to prompts of several lengths
        ((384, 300), 1, 2),  # such prompts, read under a mask
        ((8,), 64, 2),  # the draw
    ],
)
def test_a_batch_of_answers_while_it_is_sampled(lengths, group, completion, dtype):
    model = model_of(dtype)
    sampler = PolicySampler(model, tokens_at_once=10**6)
    prompts = [[1 + place % 400 for place in range(n)] for n in lengths]
    sampling = Sampling(group, completion, frozenset())
    with LiveBytes() as live:
        sampler.sample(prompts, rows=range(len(prompts)), stream=Stream(0, 1), sampling=sampling)
    drawn = Drawn(group * len(lengths), len(lengths), max(lengths), completion)
    planned = moving(phase_of(dtype, "sampling", drawn=(drawn,)))
    assert planned == pytest.approx(live.peak, rel=0.15)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_step_from_answers_with_their_entropy_is_planned_as_any_that_is_not_linear(dtype):
    model, tokens = model_of(dtype).train(), 512
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    attach(model, chunk_tokens=CHUNK)
    ids_BT = torch.ones(1, tokens, dtype=torch.long)
    scored_BT = torch.arange(tokens)[None] > 8
    with LiveBytes() as live:
        logp_BT, _ = answer_logps(
            model, ids_BT, scored_BT, Layout.causal([tokens], tokens), head_chunk_tokens=HEAD,
            with_entropy=True,
        )  # fmt: skip
        logp_BT.sum().backward()
    found = footprint(config(), dtype=dtype, chunk_tokens=CHUNK)
    plan = memory_plan(found, tokens, replace(WISH, linear=False))
    planned = max(p.total - p.weights - p.gradients - p.margin for p in plan.phases)
    assert planned == pytest.approx(live.peak, rel=0.15)


def test_a_second_model_is_held_in_every_phase():
    found = footprint(config(), dtype=torch.float32, chunk_tokens=CHUNK)
    alone, beside = (
        memory_plan(found, 64, replace(WISH, second_weights=n, scored=((1, 64),)))
        for n in (0, found.weights)
    )
    pairs = zip(alone.phases, beside.phases, strict=True)
    assert all(b.weights - a.weights == found.weights for a, b in pairs)


def test_int8_weights_all_have_their_computing_form_while_answers_are_drawn():
    found = footprint(config(), dtype=torch.float32, chunk_tokens=CHUNK)
    drawn = Drawn(1, 1, 4, 4)
    held, plain = (
        memory_plan(found, 64, replace(WISH, drawn=(drawn,), held_weights=n)).phases[-1]
        for n in (found.weights // 4, None)
    )
    assert held.total - plain.total >= found.weights // 4


@pytest.mark.parametrize("family", ["llama", "gpt_oss", "mixtral", "bloom", "qwen3_next"])
def test_which_models_mix_documents_is_known_without_weights(family, tiny):
    model = tiny(family)
    stock = type(model.config).from_dict(model.config.to_dict())
    found = footprint(stock, dtype=torch.bfloat16, chunk_tokens=CHUNK)
    with attach(model, chunk_tokens=CHUNK) as attached:
        assert found.mixing == bool(attached.mixing)

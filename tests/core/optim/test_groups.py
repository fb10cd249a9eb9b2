"""Every trainable parameter is in one group, by the kind of its module and the user's patterns."""

import pytest
import torch
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from core.optim import Apollo, ParameterError, PatternError, parameter_groups

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1}


@pytest.fixture(scope="module")
def llama():
    return LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS, tie_word_embeddings=False))


def names(model, kind, **options):
    groups = {group["kind"]: group for group in parameter_groups(model, **options)}
    return {name for name, _ in groups[kind]["params"]} if kind in groups else set()


def test_llama_s_linear_layers_are_low_rank_and_the_rest_is_not(llama):
    layer = "model.layers.0."
    assert names(llama, "low_rank") == {
        *(f"{layer}self_attn.{side}_proj.weight" for side in "qkvo"),
        *(f"{layer}mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    }
    assert names(llama, "full_rank") == {"model.embed_tokens.weight", "lm_head.weight"}
    assert names(llama, "vector") == {
        f"{layer}input_layernorm.weight",
        f"{layer}post_attention_layernorm.weight",
        "model.norm.weight",
    }


def test_embeddings_and_head_can_be_low_rank(llama):
    low_rank = names(llama, "low_rank", embeddings="apollo")
    assert {"model.embed_tokens.weight", "lm_head.weight"} <= low_rank


def test_gpt2_s_conv1d_is_linear_and_its_tied_weight_stands_once():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    assert "transformer.h.0.attn.c_attn.weight" in names(model, "low_rank")
    assert names(model, "full_rank") == {"transformer.wte.weight", "transformer.wpe.weight"}
    groups = parameter_groups(model)
    listed = [param for group in groups for _, param in group["params"]]
    assert len(listed) == len({id(param) for param in listed}) == len(list(model.parameters()))


@pytest.mark.parametrize("order", [("logits", "table"), ("table", "logits")], ids=str)
def test_a_weight_tied_to_an_embedding_is_an_embedding_whichever_comes_first(order):
    parts = {"logits": nn.Linear(4, 9, bias=False), "table": nn.Embedding(9, 4)}
    parts["table"].weight = parts["logits"].weight
    model = nn.ModuleDict({name: parts[name] for name in order})
    assert names(model, "full_rank") == {f"{order[0]}.weight"}


def test_fused_experts_are_low_rank_and_convolutions_are_not():
    sizes = SIZES | {"num_local_experts": 2, "num_experts_per_tok": 1}
    experts = names(MixtralForCausalLM(MixtralConfig(**sizes, **HEADS)), "low_rank")
    assert "model.layers.0.mlp.experts.gate_up_proj" in experts
    assert names(nn.Sequential(nn.Conv1d(3, 4, 2)), "full_rank") == {"0.weight"}


def test_patterns_overrule_kinds(llama):
    assert "lm_head.weight" in names(llama, "low_rank", low_rank=["lm_head.*"])
    moved = names(llama, "full_rank", full_rank=["*.q_proj.weight", "*.mlp.*"])
    assert len(moved) == 2 + 4


@pytest.mark.parametrize(
    "options",
    [
        {"low_rank": ["*.w1.weight"]},
        {"full_rank": ["*.q_proj.weight", "*.absent"]},
        {"low_rank": ["model.norm.weight"]},
        {"low_rank": ["*.q_proj.*"], "full_rank": ["*.self_attn.*"]},
    ],
    ids=["nothing", "second", "a vector", "contradiction"],
)
def test_a_pattern_that_does_nothing_or_contradicts_is_an_error(llama, options):
    with pytest.raises(PatternError, match="match"):
        parameter_groups(llama, **options)


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model[0].requires_grad_(False)
    assert names(model, "low_rank") == {"1.weight"}
    model.requires_grad_(False)
    with pytest.raises(ParameterError, match="frozen"):
        parameter_groups(model)


def test_compiling_changes_no_name():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    assert names(torch.compile(model), "low_rank") == {"0.weight"}


def test_groups_make_an_optimizer_that_decays_matrices_alone(llama):
    optimizer = Apollo(parameter_groups(llama), lr=1e-2, rank=2, weight_decay=0.1)
    options = {group["kind"]: group for group in optimizer.param_groups}
    assert [options[kind]["rank"] for kind in ("low_rank", "full_rank", "vector")] == [
        2,
        None,
        None,
    ]
    assert options["low_rank"]["weight_decay"] == options["full_rank"]["weight_decay"] == 0.1
    assert options["vector"]["weight_decay"] == 0.0
    decayed = Apollo(parameter_groups(llama, decay_vectors=True), lr=1e-2, weight_decay=0.1)
    assert {group["weight_decay"] for group in decayed.param_groups} == {0.1}

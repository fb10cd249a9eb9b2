"""SCALE finds the head and each weight's inputs by what a module is, tied weights included."""

import pytest
import torch
from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
)

from core.optim import ParameterError, Scale, scale_groups

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1}
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


def llama(tied):
    return LlamaForCausalLM(LlamaConfig(**SIZES, **HEADS, tie_word_embeddings=tied))


def groups_of(model, **options):
    return {group["kind"]: group for group in scale_groups(model, **options)}


def names(model):
    return {kind: {n for n, _ in group["params"]} for kind, group in groups_of(model).items()}


def test_an_untied_head_has_the_momentum_and_the_embedding_its_own_columns():
    found = names(llama(tied=False))
    assert found["head"] == {"lm_head.weight"}
    assert found["inputs_first"] == {"model.embed_tokens.weight"}
    assert len(found["outputs_first"]) == 7
    assert len(found["vector"]) == 3
    groups = groups_of(llama(tied=False), momentum=0.7)
    assert [group.get("momentum") for group in groups.values()] == [0.7, None, None, None]
    assert (groups["head"]["input_axis"], groups["inputs_first"]["input_axis"]) == (-1, -2)


def test_a_tied_head_is_a_head_and_stands_once():
    found = names(llama(tied=True))
    assert found["head"] == {"model.embed_tokens.weight"}
    assert "inputs_first" not in found


@pytest.mark.parametrize("order", [("lm_head", "table"), ("table", "lm_head")], ids=str)
def test_a_tied_head_is_found_whichever_comes_first(order):
    parts = {"lm_head": nn.Linear(4, 9, bias=False), "table": nn.Embedding(9, 4)}
    parts["table"].weight = parts["lm_head"].weight
    assert names(nn.ModuleDict({name: parts[name] for name in order})) == {
        "head": {f"{order[0]}.weight"}
    }


def test_gpt2_s_conv1d_holds_inputs_by_outputs():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=2))
    found = names(model)
    assert found["head"] == {"transformer.wte.weight"}
    assert {"transformer.wpe.weight", "transformer.h.0.mlp.c_fc.weight"} <= found["inputs_first"]


def test_fused_experts_say_which_way_they_lie():
    mixtral = names(MixtralForCausalLM(MixtralConfig(**SIZES, **HEADS, **EXPERTS)))
    assert "model.layers.0.mlp.experts.gate_up_proj" in mixtral["outputs_first"]
    oss = names(GptOssForCausalLM(GptOssConfig(**SIZES, **HEADS, **EXPERTS, head_dim=8)))
    assert "model.layers.0.mlp.experts.gate_up_proj" in oss["inputs_first"]


def test_convolutions_take_adamw():
    model = nn.ModuleDict({"conv": nn.Conv1d(3, 4, 2), "lm_head": nn.Linear(4, 9)})
    assert names(model)["full_rank"] == {"conv.weight"}


def test_a_model_without_a_head_or_with_nothing_to_train_is_refused():
    with pytest.raises(ParameterError, match="lm_head"):
        scale_groups(nn.Sequential(nn.Linear(3, 4)))
    with pytest.raises(ParameterError, match="frozen"):
        scale_groups(llama(tied=True).requires_grad_(False))


def test_the_groups_step_a_model_and_decay_no_vector():
    torch.manual_seed(0)
    model = llama(tied=False)
    optimizer = Scale(scale_groups(model), lr=3e-3, weight_decay=0.1)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.1, 0.1, 0.0]
    ids = torch.randint(32, (2, 12))
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2

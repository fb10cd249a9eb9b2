"""A model with int8 weights: what becomes int8, and what is saved of it."""

import io

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import nn

from core.optim.errors import OptionError, ParameterError, PatternError, StateMismatchError
from core.optim.int8 import Int8Weight
from core.optim.int8_model import (
    dequantised_tensors,
    exact_state,
    load_exact_state,
    quantise_model,
    refuse_int8,
)
from core.optim.noise import rounding_noise

_SIZE = {
    "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 61, "head_dim": 8, "pad_token_id": 0,
}  # fmt: skip


def build(family="llama", *, tied=True, **words):
    config = transformers.AutoConfig.for_model(family, **_SIZE, tie_word_embeddings=tied, **words)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


def int8_names(model):
    return [name for name, param in model.named_parameters() if isinstance(param, Int8Weight)]


def test_matrices_become_int8_and_all_else_stays():
    model = build(tied=False, attention_bias=True)
    names = quantise_model(model)
    assert names == int8_names(model)
    for name, param in model.named_parameters():
        assert isinstance(param, Int8Weight) == (param.ndim == 2), name
        assert isinstance(param, nn.Parameter)
    assert quantise_model(model) == []


def test_fused_experts_become_int8_and_their_router_does_not():
    model = build("mixtral", num_local_experts=4, num_experts_per_tok=2)
    names = quantise_model(model)
    assert any("experts.gate_up_proj" in name for name in names)
    assert not any(name.endswith("gate.weight") for name in names)


def test_a_tied_weight_stays_tied_and_a_frozen_one_frozen():
    model = build()
    model.model.layers[0].requires_grad_(False)
    quantise_model(model)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert isinstance(model.lm_head.weight, Int8Weight)
    frozen = {name for name, param in model.named_parameters() if not param.requires_grad}
    assert frozen == {n for n, _ in model.named_parameters() if n.startswith("model.layers.0.")}


def test_patterns_choose_and_one_that_matches_nothing_is_refused():
    model = build()
    names = quantise_model(model, include=["*.mlp.*", "*.q_proj.weight"])
    assert len(names) == 8
    assert all(".mlp." in name or ".q_proj." in name for name in names)
    with pytest.raises(PatternError, match=r"\*\.experts\.\*"):
        quantise_model(build(), include=["*.experts.*"])


def test_weights_that_cannot_be_quantised_are_refused_by_name():
    model = build()
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 4] = torch.nan
    with pytest.raises(ParameterError, match=r"layers\.1\.mlp\.up_proj\.weight"):
        quantise_model(model)
    with pytest.raises(ParameterError, match="float16"):
        quantise_model(build().half())
    with pytest.raises(OptionError, match="group"):
        quantise_model(build(), group=100)


def test_the_model_answers_near_what_it_did():
    ids = torch.arange(20)[None]
    model = build()
    want = model(ids).logits
    quantise_model(model)
    off = (model(ids).logits - want).norm() / want.norm()
    assert 0 < off < 0.02


def test_ordinary_tensors_load_anywhere_and_quantise_to_the_same_codes(tmp_path):
    model, ids = build(), torch.arange(20)[None]
    quantise_model(model)
    save_file(dict(dequantised_tensors(model)), tmp_path / "model.safetensors", {"format": "pt"})
    model.config.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert torch.equal(again(ids).logits, model(ids).logits)
    quantise_model(again)
    pairs = zip(exact_state(again).items(), exact_state(model).items(), strict=True)
    assert all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_ordinary_tensors_are_made_one_at_a_time_and_in_the_dtype_asked_for(monkeypatch):
    model, made = build(tied=False), []
    names = quantise_model(model)
    original = Int8Weight.dequantised
    monkeypatch.setattr(
        Int8Weight, "dequantised", lambda w, dtype: made.append(w) or original(w, dtype)
    )
    for _, value in dequantised_tensors(model, torch.bfloat16):
        assert type(value) in (torch.Tensor, nn.Parameter)
        if made:
            assert value.dtype == torch.bfloat16 or value.ndim == 1
            break
    assert len(made) == 1
    assert len(list(dequantised_tensors(model))) == len(list(model.parameters()))
    assert len(made) == 1 + len(names)


def reloaded(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def by_chance(model, step):
    """The same model with its matrices written again, to states that no float model quantises to."""
    for name, param in model.named_parameters():
        if isinstance(param, Int8Weight):
            noise = rounding_noise(name=name, seed=0, step=step, device=param.device)
            value = param.dequantised() * 1.01
            with torch.no_grad():
                param.copy_(Int8Weight.quantised(value, param.group, noise=noise))
    return model


@pytest.mark.parametrize("tied", [False, True])
def test_the_exact_state_comes_back_bit_for_bit(tied):
    model, other = build(tied=tied), build(tied=tied)
    for each, step in ((model, 1), (other, 2)):
        quantise_model(each, group=16)
        by_chance(each, step)
    state = exact_state(model)
    assert "model.layers.0.mlp.up_proj.weight.codes" in state
    assert ("lm_head.weight.codes" in state) != tied
    version = other.model.embed_tokens.weight._version
    load_exact_state(other, reloaded(state))
    assert other.model.embed_tokens.weight._version > version
    again = exact_state(other)
    assert all(torch.equal(again[name], state[name]) for name in state)
    assert again.keys() == state.keys()


def test_a_state_of_another_model_or_group_is_refused_and_changes_nothing():
    model = build()
    quantise_model(model, group=16)
    before = {name: value.clone() for name, value in exact_state(model).items()}
    other = build()
    quantise_model(other, group=8)
    with pytest.raises(StateMismatchError, match=r"scales.*quantise with its group"):
        load_exact_state(model, exact_state(other))
    with pytest.raises(StateMismatchError, match="missing"):
        load_exact_state(model, exact_state(build()))
    assert all(torch.equal(value, before[name]) for name, value in exact_state(model).items())


def test_an_optimizer_that_cannot_is_refused_with_what_can():
    model = build()
    refuse_int8(model.parameters(), "adamw")
    quantise_model(model, include=["*.q_proj.weight"])
    with pytest.raises(OptionError, match=r"optimizer = 'adamw'.*apollo"):
        refuse_int8(model.parameters(), "adamw")

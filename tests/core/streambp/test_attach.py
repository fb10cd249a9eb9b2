"""Attaching changes how a model computes and nothing else, and can be taken back."""

import copy

import pytest
import torch
import transformers

from core.streambp import attach, token_logps
from core.streambp.errors import (
    AttachmentError,
    ChunkLengthError,
    LayerCallError,
    UnsupportedModelError,
)


def test_state_dict_keys_and_values_are_untouched(tiny, tmp_path):
    model = tiny("qwen2")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with attach(model, chunk_tokens=4):
        after = model.state_dict()
        assert list(after) == list(before)
        assert all(torch.equal(after[name], before[name]) for name in before)
        model.save_pretrained(tmp_path)
    again, loading = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, output_loading_info=True, dtype=torch.float64
    )
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    assert all(torch.equal(again.state_dict()[name], before[name]) for name in before)


def test_detach_restores_forwards_configuration_and_outputs(tiny, batch):
    model, ids = tiny("gemma2"), batch().ids_BT
    want = model(input_ids=ids).logits
    config, implementation = model.model.config, model.config._attn_implementation
    attach(model, chunk_tokens=4).detach()
    assert all("forward" not in layer.__dict__ for layer in model.model.layers)
    assert model.model.config is config is model.config
    assert config._attn_implementation == implementation
    assert torch.equal(model(input_ids=ids).logits, want)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt2", "gpt_neox"])
def test_the_model_itself_still_answers_when_attached(family, tiny, batch):
    model, ids = tiny(family).eval(), batch().ids_BT
    want = model(input_ids=ids).logits
    with attach(model, chunk_tokens=4) as attached:
        assert {report.status for report in attached.layers} == {"streamed"}
        torch.testing.assert_close(model(input_ids=ids).logits, want, rtol=1e-5, atol=1e-5)


def test_a_copy_of_an_attached_model_streams_its_own_weights(tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4):
        copied = copy.deepcopy(model)
        logp = token_logps(copied, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=8)
        logp.sum().backward()
    assert all(p.grad is None for p in model.parameters())
    assert copied.model.layers[0].self_attn.k_proj.weight.grad.norm() > 0


def test_a_second_model_on_the_same_configuration_stays_stock(tiny, batch):
    model, ids = tiny("llama"), batch().ids_BT
    other = type(model)(model.config).double()
    want = other(input_ids=ids).logits
    with attach(model, chunk_tokens=4):
        assert torch.equal(other(input_ids=ids).logits, want)


def test_attaching_twice_and_scoring_unattached_are_refused(tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4), pytest.raises(AttachmentError, match="detach it first"):
        attach(model, chunk_tokens=4)
    with pytest.raises(AttachmentError, match=r"call attach\(model"):
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)


def test_detaching_between_the_passes_is_refused(tiny, batch):
    model, data = tiny("llama"), batch()
    with attach(model, chunk_tokens=4):
        logp = token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=4)
    with pytest.raises(AttachmentError, match="until the backward pass is done"):
        logp.sum().backward()


@pytest.mark.parametrize("tokens", [0, -1, 2.5, True])
def test_a_chunk_holds_at_least_one_token(tokens, tiny):
    with pytest.raises(ChunkLengthError, match="at least 1"):
        attach(tiny("llama"), chunk_tokens=tokens)


def test_models_without_causal_decoder_layers_are_refused_by_name(tiny):
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 61}
    encoder = transformers.BertLMHeadModel(transformers.BertConfig(intermediate_size=48, **size))
    with pytest.raises(UnsupportedModelError, match="both directions"):
        attach(encoder, chunk_tokens=4)
    with pytest.raises(UnsupportedModelError, match="get_decoder"):
        attach(tiny("llama").model, chunk_tokens=4)
    with pytest.raises(UnsupportedModelError, match="transformers causal language model"):
        attach(torch.nn.Linear(2, 2), chunk_tokens=4)
    sequence = transformers.T5Config(
        d_model=32, d_ff=48, d_kv=8, num_layers=1, num_heads=4, vocab_size=61
    )
    with pytest.raises(UnsupportedModelError, match="encoder-decoder"):
        attach(transformers.T5ForConditionalGeneration(sequence), chunk_tokens=4)


def test_caches_and_nested_checkpointing_are_refused(tiny, batch):
    model, ids = tiny("llama"), batch().ids_BT
    with attach(model, chunk_tokens=4):
        with pytest.raises(LayerCallError, match="use_cache=False"):
            model(input_ids=ids, use_cache=True)
        for layer in model.model.layers:
            layer.gradient_checkpointing = True
        with pytest.raises(LayerCallError, match="gradient_checkpointing_disable"):
            model(input_ids=ids)

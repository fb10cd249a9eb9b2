"""What cannot be streamed is refused by field and remedy, and the model is left as it was."""

import pytest
import torch
import transformers

from core.streambp import Layout, StreamError, attach, token_logps
from core.streambp.errors import ChunkLengthError, PolicyError, UnsupportedModelError


@pytest.mark.parametrize("tokens", [0, -3, True, 1.5, "x", None])
def test_a_chunk_length_is_a_whole_number_from_1(tokens, tiny, batch):
    model, data = tiny("llama"), batch()
    with pytest.raises(ChunkLengthError) as caught:
        attach(model, chunk_tokens=tokens)
    assert str(caught.value) == (
        f"chunk_tokens = {tokens!r}: give a whole number of tokens, at least 1"
    )
    with attach(model, chunk_tokens=4), pytest.raises(ChunkLengthError) as caught:
        token_logps(model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=tokens)
    assert caught.value.field == "head_chunk_tokens"


@pytest.mark.parametrize(
    ("words", "field", "remedy"),
    [
        ({"keep": "everything"}, "keep", "hidden, hidden+attention, hidden+kv"),
        ({"keep": None}, "keep", "hidden"),
        ({"store": "tape"}, "store", "device, cpu, disk"),
        ({"store": "disk"}, "folder", "give one with store = disk"),
        ({"store": "disk", "folder": "/no/such/folder"}, "folder", "can be written to"),
        ({"store": "disk", "folder": __file__}, "folder", "a folder that exists"),
        ({"folder": "."}, "folder", "only then"),
        ({"store": "disk", "folder": 3}, "folder", "give a path"),
    ],
)
def test_a_policy_is_refused_with_the_words_that_would_do(words, field, remedy, tiny):
    with pytest.raises(PolicyError) as caught:
        attach(tiny("llama"), chunk_tokens=4, **words)
    assert caught.value.field == field
    assert remedy in caught.value.remedy
    assert f"{field} = " in str(caught.value)


def test_a_folder_that_takes_no_file_is_refused_before_any_step(tiny):
    with pytest.raises(PolicyError) as caught:
        attach(tiny("llama"), chunk_tokens=4, store="disk", folder="/proc")
    assert caught.value.field == "folder"


def test_a_model_without_decoder_layers_is_refused(tiny):
    with pytest.raises(UnsupportedModelError, match="'LlamaForCausalLM': no decoder layers"):
        attach(tiny("llama", num_hidden_layers=0), chunk_tokens=4)


def test_a_model_that_fails_by_itself_is_refused_with_its_own_error(tiny):
    model = tiny("llama")
    model.lm_head = torch.nn.Linear(31, 61, dtype=torch.float64)
    with pytest.raises(
        UnsupportedModelError, match="'LlamaForCausalLM': it fails by itself"
    ) as told:
        attach(model, chunk_tokens=4)
    assert "mat1 and mat2 shapes" in str(told.value)


@pytest.mark.parametrize("kind", ["Electra", "Roberta", "RoFormer", "MegatronBert", "Ernie"])
def test_an_encoder_is_refused_whatever_its_class_is_called(kind):
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 61}
    name = f"{kind}ForCausalLM"
    config = getattr(transformers, f"{kind}Config")(intermediate_size=48, **size)
    with pytest.raises(StreamError, match=f"'{name}'|both directions"):
        attach(getattr(transformers, name)(config), chunk_tokens=4)


@pytest.mark.parametrize(
    "layout", [Layout.causal([12, 9], 12), Layout.causal([13], 13), Layout.packed([[9, 4]] * 3, 13)]
)
def test_a_layout_that_does_not_cover_the_tokens_is_refused(layout, tiny, batch):
    data, model = batch(), tiny("llama")
    calls = []
    model.model.layers[0].register_forward_pre_hook(lambda *_: calls.append(1))
    with attach(model, chunk_tokens=4):
        calls.clear()
        with pytest.raises(StreamError, match="it has 2 rows of 13 tokens") as caught:
            token_logps(model, data.ids_BT, data.targets_BT, layout, head_chunk_tokens=4)
    assert caught.value.field == "layout"
    assert not calls  # told before anything was computed


@pytest.mark.parametrize("fault", ["chunk", "policy", "head", "checkpointing"])
def test_a_model_that_was_refused_is_still_stock(fault, tiny, batch):
    model, ids = tiny("gemma2"), batch().ids_BT
    want, config = model(input_ids=ids).logits, model.model.config
    words = {"chunk_tokens": 0 if fault == "chunk" else 4}
    if fault == "policy":
        words["keep"] = "everything"
    if fault == "head":
        model.config.final_logit_softcapping = None
        model.lm_head = torch.nn.Linear(32, 7, dtype=torch.float64)
        model.config.logit_scale = 0.5  # nothing in Gemma reads it
        want = model(input_ids=ids).logits
    if fault == "checkpointing":
        model.model.layers[1].gradient_checkpointing = True
    with pytest.raises(StreamError):
        attach(model, **words)
    assert model.model.config is config
    assert all("forward" not in layer.__dict__ for layer in model.model.layers)
    model.model.layers[1].gradient_checkpointing = False
    assert torch.equal(model(input_ids=ids).logits, want)

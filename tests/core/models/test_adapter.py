"""An adapter is peft's own: injected by the job's seed, saved for anybody, and taken into weights exactly."""

import copy
import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from core.models.adapter import load_adapter, merged_tensors, save_adapter, with_adapter
from core.models.load import load_model
from core.optim import Int8Weight, dequantised_tensors, quantise_model
from core.spec.adapter import LoraSpec
from core.spec.errors import RunFailure

IDS_BT = torch.arange(24).reshape(1, 24)
LINEAR = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


@pytest.fixture
def adapted(toy_model):
    """A toy model with an adapter that says something; of int8 or narrower weights if asked for."""

    def build(spec=None, *, seed=0, dtype=torch.float32, int8=False, zero=False):
        model = load_model(toy_model, torch.device("cpu"), dtype)
        if int8:
            quantise_model(model)
        with_adapter(model, spec or LoraSpec(rank=4), seed=seed, base="toy")
        if not zero:
            generator = torch.Generator().manual_seed(1)
            for matrix in trained(model).values():
                matrix.data.add_(torch.randn(matrix.shape, generator=generator) / 8)
        return model.eval()

    return build


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def logits(model):
    with torch.no_grad():
        return model(IDS_BT).logits


def test_every_linear_layer_but_the_head_gets_two_float32_matrices(adapted):
    model = adapted(dtype=torch.bfloat16)
    names = [name.split(".") for name in trained(model)]
    assert {name[-4] for name in names} == LINEAR
    assert {name[-3] for name in names} == {"lora_A", "lora_B"}
    assert {p.dtype for p in trained(model).values()} == {torch.float32}


@pytest.mark.parametrize("int8", [False, True])
def test_a_fresh_adapter_changes_nothing_and_is_drawn_from_the_seed(adapted, toy_model, int8):
    base = load_model(toy_model, torch.device("cpu")).eval()
    if int8:
        quantise_model(base)
    before = torch.get_rng_state()
    one, same, other = (adapted(seed=seed, zero=True, int8=int8) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(logits(one), logits(base))
    first, second, third = trained(one), trained(same), trained(other)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(torch.equal(first[n], third[n]) for n in first if "lora_A" in n)


def test_only_what_is_named_gets_one(adapted):
    model = adapted(LoraSpec(rank=2, targets=("q_proj", "mlp.down_proj")))
    assert {name.split(".")[-4] for name in trained(model)} == {"q_proj", "down_proj"}


@pytest.mark.parametrize("target", ["query", "lm_head", "self_attn", "proj"])
def test_a_target_that_names_no_linear_layer_is_refused_with_those_there_are(adapted, target):
    with pytest.raises(RunFailure) as failure:
        adapted(LoraSpec(targets=("q_proj", target)))
    error = failure.value.error
    assert (error.code, error.param) == ("no_such_target", "trainer.adapter.targets")
    assert f"'{target}'" in error.message
    assert all(name in error.hint for name in LINEAR)
    assert "lm_head" not in error.hint


@pytest.mark.parametrize(
    ("dtype", "int8"), [(torch.float32, False), (torch.bfloat16, False), (torch.float32, True)]
)
def test_peft_loads_what_is_saved_and_gives_the_same_logits(
    adapted, toy_model, tmp_path, dtype, int8
):
    model = adapted(LoraSpec(rank=4, alpha=3.0), dtype=dtype, int8=int8)
    save_adapter(model, tmp_path)
    base = AutoModelForCausalLM.from_pretrained(toy_model, dtype=dtype)
    if int8:
        quantise_model(base)
    loaded = PeftModel.from_pretrained(base, tmp_path).eval()
    assert torch.equal(logits(loaded), logits(model))
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["inference_mode"]) == ("toy", True)
    assert (config["r"], config["lora_alpha"]) == (4, 3.0)
    assert {name.rpartition(".")[2] for name in config["target_modules"]} == LINEAR
    assert trained(model), "saving leaves the adapter trainable"


def test_an_adapter_is_read_back_bit_for_bit(adapted, tmp_path):
    model, fresh = adapted(dtype=torch.bfloat16), adapted(dtype=torch.bfloat16, zero=True)
    save_adapter(model, tmp_path)
    load_adapter(fresh, tmp_path)
    want, got = trained(model), trained(fresh)
    assert all(torch.equal(got[name], want[name]) for name in want)
    assert len(load_file(tmp_path / "adapter_model.safetensors")) == len(want)


@pytest.mark.parametrize("int8", [False, True])
def test_merged_weights_answer_as_the_adapter_beside_them(adapted, toy_model, int8):
    model = adapted(int8=int8)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    merged = dict(merged_tensors(model, dequantised_tensors(model)))
    stock = AutoModelForCausalLM.from_pretrained(toy_model).eval()
    assert stock.load_state_dict(merged, strict=False).unexpected_keys == []
    torch.testing.assert_close(logits(stock), logits(model), rtol=1e-5, atol=1e-5)
    for name, p in model.named_parameters():
        same = (
            p.codes.equal(before[name].codes)
            if isinstance(p, Int8Weight)
            else p.equal(before[name])
        )
        assert same, name


def test_it_can_be_copied_for_a_reference(adapted):
    model = adapted()
    assert torch.equal(logits(copy.deepcopy(model)), logits(model))

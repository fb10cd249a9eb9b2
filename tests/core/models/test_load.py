"""Base models are read in full precision, from safetensors only, and never by running their code."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from core.models.load import load_model, load_tokenizer
from core.spec.errors import ExitCode, RunFailure

CPU = torch.device("cpu")


@pytest.fixture
def copy(toy_model, tmp_path):
    return shutil.copytree(toy_model, tmp_path / "copy")


def refusal(load, *arguments):
    with pytest.raises(RunFailure) as failure:
        load(*arguments)
    error = failure.value.error
    assert failure.value.exit_code is ExitCode.spec
    assert (error.code, error.param, error.fault) == ("model_not_trainable", "model", "user")
    return error.message


def test_a_model_is_the_stock_one_ready_to_train(toy_model):
    model = load_model(toy_model, CPU)
    assert model.training
    stock = AutoModelForCausalLM.from_pretrained(toy_model)
    for name, weight in model.named_parameters():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, stock.get_parameter(name))


def test_half_precision_weights_are_widened(toy_model, copy):
    model = AutoModelForCausalLM.from_pretrained(toy_model, dtype=torch.bfloat16)
    model.save_pretrained(copy)
    assert {p.dtype for p in load_model(copy, CPU).parameters()} == {torch.float32}


def test_pickled_weights_are_refused(copy):
    (copy / "model.safetensors").unlink()
    torch.save({}, copy / "pytorch_model.bin")
    assert "'copy' cannot be loaded" in refusal(load_model, copy, CPU)


def test_code_beside_the_weights_is_not_run(copy, tmp_path):
    config = json.loads((copy / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoModelForCausalLM": "evil.Evil"}}
    config["auto_map"]["AutoConfig"] = "evil.Config"
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    refusal(load_model, copy, CPU)
    assert not (tmp_path / "ran").exists()


def test_a_folder_without_a_tokenizer_is_refused(copy):
    for path in copy.glob("tokenizer*"):
        path.unlink()
    assert "'copy' cannot be loaded" in refusal(load_tokenizer, copy)


def test_damaged_weights_are_refused(copy):
    content = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(content[:1000])
    assert "'copy' cannot be loaded" in refusal(load_model, copy, CPU)


def test_weights_that_are_missing_are_not_made_up(copy):
    weights = load_file(copy / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    assert "no weights for model.layers.1.mlp.up_proj.weight" in refusal(load_model, copy, CPU)

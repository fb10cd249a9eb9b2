"""A whole LoRA run: small files that peft loads, a frozen base, and it goes on bit for bit."""

import hashlib
import json

import pytest
import torch
from peft import AutoPeftModelForCausalLM, PeftModel
from safetensors.torch import load
from transformers import AutoModelForCausalLM, AutoTokenizer

from core.models.load import load_model
from core.optim import dequantised_tensors, quantise_model
from core.spec.errors import RunFailure
from core.spec.run import Manifest

LORA = {"kind": "lora", "rank": 4, "alpha": 8.0}
IDS_BT = torch.arange(24).reshape(1, 24)
KINDS = ("apollo_mini", "apollo", "scale", "adamw", "sgd")


@pytest.fixture
def lora(make_spec):
    """A spec of a LoRA job that learns fast; words of the adapter and of the trainer win."""

    def make(adapter=None, epochs=2, **trainer):
        words = {"adapter": LORA | (adapter or {}), "learning_rate": 0.02, **trainer}
        return make_spec(trainer=words, hyperparameters={"n_epochs": epochs})

    return make


def matrices(run):
    return load((run.checkpoint / "adapter_model.safetensors").read_bytes())


def logits(model):
    with torch.no_grad():
        return model.eval()(IDS_BT).logits


def stock(toy_model, *, int8=False, dtype=torch.float32):
    model = load_model(toy_model, torch.device("cpu"), dtype)
    if int8:  # what the frozen weights were while it learnt
        quantise_model(model)
        model.load_state_dict(dict(dequantised_tensors(model)), strict=False, assign=True)
    return model


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_under_every_optimizer_beside_weights_of_every_precision(
    kind, precision, lora, train
):
    rate = {"sgd": 10.0}.get(kind, 0.02)
    spec = lora(epochs=3, optimizer={"kind": kind}, precision=precision, learning_rate=rate)
    run = train(spec)
    losses = [metrics["train_loss"] for metrics in run.steps.values()]
    assert losses[-1] < losses[0] - 0.2, losses
    assert {x.dtype for x in matrices(run).values()} == {torch.float32}


@pytest.mark.parametrize("int8", [False, True])
def test_peft_loads_it_onto_the_stock_base_and_merged_weights_answer_alike(
    int8, lora, train, toy_model
):
    precision = "int8" if int8 else "float32"
    folder = train(lora({"merge": True}, precision=precision)).checkpoint
    base = stock(toy_model, int8=int8)
    plain = logits(base)
    answer = logits(PeftModel.from_pretrained(base, folder))
    assert not torch.allclose(answer, plain, atol=1e-3)
    merged, told = AutoModelForCausalLM.from_pretrained(folder / "merged", output_loading_info=True)
    assert not any(told.values())
    torch.testing.assert_close(logits(merged), answer, rtol=1e-5, atol=5e-5)
    assert AutoTokenizer.from_pretrained(folder / "merged").chat_template
    if not int8:  # the base is found by the name that the job gave it
        assert torch.equal(logits(AutoPeftModelForCausalLM.from_pretrained(folder)), answer)


def test_a_checkpoint_holds_the_adapter_and_no_other_weights(lora, train, toy_model):
    run = train(lora({"targets": ["q_proj", "v_proj"]}))
    manifest = Manifest.model_validate_json((run.checkpoint / "manifest.json").read_bytes())
    kinds = {file.path: file.kind for file in manifest.files}
    assert kinds["adapter_model.safetensors"] == kinds["adapter_config.json"] == "adapter"
    assert kinds["tokenizer.json"] == "tokenizer"
    assert not {"weights", "config"} & set(kinds.values())
    size = sum(file.bytes for file in manifest.files if file.kind in {"adapter", "state"})
    assert size < (toy_model / "model.safetensors").stat().st_size / 2
    assert run.state["weights"] == {}
    config = json.loads((run.checkpoint / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(toy_model)


def test_a_merged_model_is_hashed_and_can_be_trained_on(lora, make_spec, train):
    run = train(lora({"merge": True}))
    manifest = Manifest.model_validate_json((run.checkpoint / "manifest.json").read_bytes())
    kinds = {file.path: file.kind for file in manifest.files}
    assert kinds["merged/model.safetensors"] == "weights"
    assert kinds["merged/config.json"] == "config"
    assert kinds["merged/tokenizer.json"] == "tokenizer"
    again = train(make_spec(model=str(run.checkpoint / "merged")), "again")
    assert again.steps[1]["train_loss"] < run.steps[1]["train_loss"]


def test_an_adapter_as_a_base_is_refused_with_the_remedy(lora, make_spec, train):
    folder = train(lora()).checkpoint
    with pytest.raises(RunFailure) as failure:
        train(make_spec(model=str(folder)), "again")
    error = failure.value.error
    assert (error.code, error.param) == ("model_not_trainable", "model")
    assert "trainer.adapter.merge: true" in error.message


@pytest.mark.parametrize(
    ("kind", "precision", "dropout"),
    [
        ("apollo_mini", "float32", 0.0), ("apollo_mini", "int8", 0.3), ("scale", "bfloat16", 0.1),
        ("adamw", "int8", 0.0), ("sgd", "bfloat16", 0.1),
    ],
)  # fmt: skip
def test_a_run_that_was_stopped_goes_on_bit_equal(kind, precision, dropout, lora, train, bit_equal):
    spec = lora({"dropout": dropout}, optimizer={"kind": kind}, precision=precision)
    whole = train(spec, "whole")
    train(spec, "parts", stop_at=8)
    parts = train(spec, "parts")
    assert [event.step for event in parts.of("started")] == [0, 5]
    assert parts.steps == whole.steps
    assert bit_equal(matrices(parts), matrices(whole))
    assert bit_equal(parts.state, whole.state)


def test_the_base_is_not_written_to(lora, train, toy_model):
    before = _digests(toy_model)
    train(lora())
    assert _digests(toy_model) == before


def test_fused_and_two_phase_give_the_same_bits(lora, train, bit_equal):
    fused, apart = (
        matrices(train(lora(step=step, tokens_per_pass=128), step))
        for step in ("fused", "two_phase")
    )
    assert bit_equal(fused, apart)


def _digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}

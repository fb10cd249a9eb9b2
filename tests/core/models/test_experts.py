"""Experts that a family holds as one tensor get an adapter too, each its own, in peft's own form."""

import json

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from core.models.adapter import (
    load_adapter,
    merged_tensors,
    save_adapter,
    with_adapter,
    without_adapter,
)
from core.models.load import load_model
from core.optim import Int8Weight, dequantised_tensors, quantise_model
from core.spec.adapter import LoraSpec
from core.spec.errors import RunFailure

IDS_BT = torch.arange(24).reshape(1, 24)
SIZE = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 61, "num_experts_per_tok": 2,
}  # fmt: skip
FAMILIES = {
    "mixtral": {"num_local_experts": 4},
    "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 16},
    "qwen2_moe": {
        "num_experts": 4, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
    },
    "deepseek_v3": {
        "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8, "v_head_dim": 8,
    },
}  # fmt: skip
FUSED = {"gate_up_proj", "down_proj"}


@pytest.fixture
def base(random_model, tmp_path):
    """The folder of a small random model, float32."""

    def build(family="qwen3_moe"):
        folder = tmp_path / family
        random_model(family, SIZE | FAMILIES[family], noise=0.1).float().save_pretrained(folder)
        return folder

    return build


def adapted(folder, spec=None, *, dtype=torch.float32, int8=False):
    """The model of a folder with an adapter that says something."""
    model = load_model(folder, torch.device("cpu"), dtype)
    if int8:
        quantise_model(model)
    with_adapter(model, spec or LoraSpec(rank=3, alpha=5.0), seed=0, base="toy")
    generator = torch.Generator().manual_seed(1)
    for matrix in trained(model).values():
        matrix.data.add_(torch.randn(matrix.shape, generator=generator) / 8)
    return model.eval()


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def logits(model):
    with torch.no_grad():
        return model(IDS_BT).logits


def test_all_linear_is_the_experts_too_each_with_matrices_of_its_own(base):
    model = adapted(base())
    experts = {n: p for n, p in trained(model).items() if ".experts." in n}
    assert len(experts) == 2 * 2 * len(FUSED)
    assert {p.shape[0 if "lora_A" in n else 1] for n, p in experts.items()} == {4 * 3}
    assert any("q_proj" in name for name in trained(model))


@pytest.mark.parametrize(("family", "apart"), [("qwen2_moe", True), ("deepseek_v3", False)])
def test_shared_experts_get_one_where_peft_can_tell_them_from_experts_of_old(family, apart, base):
    folder = base(family)
    names = list(trained(adapted(folder)))
    assert any(".mlp.experts." in name for name in names)
    assert any("gate_proj" in name for name in names) is apart
    if not apart:
        with pytest.raises(RunFailure) as failure:
            adapted(folder, LoraSpec(targets=("gate_proj",)))
        assert failure.value.error.code == "no_such_target"


@pytest.mark.parametrize(
    "targets", [("q_proj",), ("experts.down_proj",), ("q_proj", "gate_up_proj")]
)
def test_only_what_is_named_gets_one(targets, base):
    model = adapted(base(), LoraSpec(rank=2, targets=targets))
    names = trained(model)
    assert any("q_proj" in n for n in names) == ("q_proj" in targets)
    assert sum(".experts." in n for n in names) == 2 * 2 * (len(targets) - ("q_proj" in targets))


def test_a_target_that_is_none_is_refused_with_the_experts_among_those_there_are(base):
    with pytest.raises(RunFailure) as failure:
        adapted(base(), LoraSpec(targets=("experts",)))
    assert failure.value.error.code == "no_such_target"
    assert "gate_up_proj" in failure.value.error.hint


def test_dropout_beside_experts_is_refused_with_the_remedy_which_helps(base):
    folder = base()
    with pytest.raises(RunFailure) as failure:
        adapted(folder, LoraSpec(dropout=0.1))
    error = failure.value.error
    assert (error.code, error.param) == ("dropout_beside_experts", "trainer.adapter.dropout")
    assert "experts.down_proj" in error.message or "experts.gate_up_proj" in error.message
    adapted(folder, LoraSpec(dropout=0.1, targets=("q_proj", "v_proj")))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("dtype", "int8"), [(torch.float32, False), (torch.bfloat16, False), (torch.float32, True)]
)
def test_peft_loads_what_is_saved_and_gives_the_same_logits(family, dtype, int8, base, tmp_path):
    folder = base(family)
    model = adapted(folder, dtype=dtype, int8=int8)
    (tmp_path / "adapter").mkdir()
    save_adapter(model, tmp_path / "adapter")
    stock = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    if int8:
        quantise_model(stock)
    plain = logits(stock.eval())
    loaded = PeftModel.from_pretrained(stock, tmp_path / "adapter").eval()
    assert torch.equal(logits(loaded), logits(model))
    assert not torch.equal(logits(model), plain)
    with without_adapter(model):
        assert torch.equal(logits(model), plain)
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert {n.rpartition(".")[2] for n in config["target_parameters"]} == FUSED


def test_an_adapter_is_read_back_bit_for_bit(base, tmp_path):
    folder = base()
    model, fresh = adapted(folder), adapted(folder, LoraSpec(rank=3, alpha=5.0))
    for matrix in trained(fresh).values():
        matrix.data.zero_()
    (tmp_path / "adapter").mkdir()
    save_adapter(model, tmp_path / "adapter")
    load_adapter(fresh, tmp_path / "adapter")
    want, got = trained(model), trained(fresh)
    assert all(torch.equal(got[name], want[name]) for name in want)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("int8", [False, True])
def test_merged_weights_answer_as_the_adapter_beside_them(family, int8, base, tmp_path):
    model = adapted(base(family), int8=int8)
    assert int8 == any(
        isinstance(p, Int8Weight) for n, p in model.named_parameters() if "experts" in n
    )
    merged = dict(merged_tensors(model, dequantised_tensors(model)))
    model.save_pretrained(tmp_path / "merged", state_dict=merged)
    stock, told = AutoModelForCausalLM.from_pretrained(
        tmp_path / "merged", output_loading_info=True
    )
    assert not any(told.values())
    torch.testing.assert_close(logits(stock.eval()), logits(model), rtol=1e-5, atol=1e-5)

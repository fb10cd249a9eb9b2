"""The exactness receipt: says yes where it is so, and no where a gradient is off."""

import json

import pytest
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers.models.qwen3 import modeling_qwen3

from core.streambp.check import main
from core.streambp.peak import LiveBytes
from core.streambp.receipt import PlainFailed, receipt
from core.streambp.widen import Widened

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 61,
}  # fmt: skip


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Qwen3ForCausalLM(Qwen3Config(**SIZES)).double()


@pytest.fixture
def folder(tmp_path):
    Qwen3Config(**SIZES).save_pretrained(tmp_path)
    return tmp_path


class LeakyNorm(modeling_qwen3.Qwen3RMSNorm):
    """Adds the mean over tokens: what a chunk cannot know."""

    def forward(self, hidden_states):
        return super().forward(hidden_states) + 1e-9 * hidden_states.mean(dim=1, keepdim=True)


def test_without_float32_inside_every_kind_of_parameter_is_exact_to_the_last_digits(model):
    found = receipt(model, tokens=13, chunk_tokens=(1, 4, 14), widened=True)
    assert found.exact
    assert found.worst < 1e-12
    kinds = {"logp", "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"}
    assert kinds | {"model.layers.*.self_attn.q_norm.weight"} <= found.errors.keys()
    assert [layer.status for layer in found.layers] == ["streamed"] * 2


def test_with_the_models_own_casts_the_rounding_shows(model):
    found = receipt(model, tokens=13, chunk_tokens=(4,))
    assert 1e-12 < found.worst <= found.tolerance == 1e-6


def test_what_is_wrong_by_a_billionth_is_seen(model):
    for layer in model.model.layers:
        layer.post_attention_layernorm.__class__ = LeakyNorm
    found = receipt(model, tokens=13, chunk_tokens=(4,), tolerance=1e-11, widened=True)
    assert not found.exact
    assert found.worst < 1e-6


def test_streaming_takes_less_memory_than_the_plain_path(model):
    found = receipt(model, tokens=96, chunk_tokens=(8,))
    assert found.peak_streamed < found.peak_plain


def test_a_model_that_does_not_run_is_no_mistake_of_the_engine(model):
    model.model.rotary_emb = torch.nn.Identity()
    with pytest.raises(PlainFailed):
        receipt(model, tokens=13, chunk_tokens=(4,))


def test_no_gradient_is_left_behind(model):
    receipt(model, tokens=13, chunk_tokens=(4,))
    assert all(p.grad is None for p in model.parameters())


def test_a_configuration_is_enough(folder, capsys):
    assert main([str(folder), "--tokens", "13", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["exact"]
    assert said["chunk_tokens"] == [1, 7, 13, 14]


def test_the_verdict_is_read_aloud(folder, capsys):
    words = [str(folder / "config.json"), "--tokens", "9", "--chunk-tokens", "4"]
    assert main([*words, "--own-casts"]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 layers streamed" in said
    assert "\nexact: worst relative error" in said


def test_inexact_ends_with_1(folder, capsys):
    words = [str(folder), "--tokens", "9", "--chunk-tokens", "4", "--tolerance", "1e-30"]
    assert main(words) == 1
    assert "NOT EXACT" in capsys.readouterr().out


def test_weights_are_used_where_there_are_some(tmp_path, capsys):
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    transformers.logging.disable_progress_bar()
    words = [str(tmp_path), "--dtype", "float32", "--tokens", "9", "--chunk-tokens", "4"]
    assert main(words) == 0
    assert "dtype float32" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("config", "why"),
    [({}, "cannot be loaded"), ({"model_type": "bert", "num_hidden_layers": 1}, "refused")],
)
def test_what_cannot_be_streamed_ends_with_1_and_one_line(config, why, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(SIZES | config))
    assert main([str(tmp_path), "--tokens", "9"]) == 1
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


def test_live_bytes_are_those_that_lived_at_once():
    with LiveBytes() as live:
        for _ in range(3):
            kept = torch.zeros(1000, dtype=torch.float64) + 1
        del kept
    assert live.peak == 3 * 8000  # the zeros, the sum, and the sum before
    assert live.now == 0


def test_widened_is_float64_in_both_directions_and_over_with_the_block():
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    with Widened():
        y = x.float().softmax(-1, dtype=torch.float32) + torch.zeros(3, dtype=torch.float32)
        y.sum().backward()
    assert (y.dtype, x.grad.dtype) == (torch.float64, torch.float64)
    assert torch.zeros(1).dtype == x.float().dtype == torch.float32

"""Tiny random models of many families, one batch, and the comparison with plain autograd."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from core.streambp import Layout, attach, plain, token_logps
from core.streambp.receipt import Batch

transformers.logging.set_verbosity_error()

VOCABULARY = 61
_SIZE: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "vocab_size": VOCABULARY,
    "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_HALVES = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"tie_word_embeddings": False},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {"tie_word_embeddings": False},
    "gemma2": {
        **_HALVES, "query_pre_attn_scalar": 8, "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0, "tie_word_embeddings": True,
    },
    "gemma3_text": {**_HALVES, "query_pre_attn_scalar": 8},
    "mistral": {"sliding_window": 4},
    "gpt_oss": {**_EXPERTS, **_HALVES},
    "mixtral": _EXPERTS,
    "granite": {"logits_scaling": 3.0, "attention_multiplier": 0.3},
    "cohere2": {**_HALVES, "logit_scale": 0.5},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention"], "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "linear_num_key_heads": 2,
        "shared_expert_intermediate_size": 16, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
}  # fmt: skip
_OWN_WORDS: dict[str, dict[str, Any]] = {  # families that call their sizes something else
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256, "vocab_size": VOCABULARY,
             "bos_token_id": 1, "eos_token_id": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
             "attn_pdrop": 0.0},
    "gpt_neox": {key: _SIZE[key] for key in _SIZE if key not in {"head_dim", "num_key_value_heads"}},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": VOCABULARY,
              "hidden_dropout": 0.0, "attention_dropout": 0.0},
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tiny(random_model: Callable[..., Any]) -> Callable[..., Any]:
    """Build `tiny(family, **overrides)`: float64, eager experts, no weight near zero."""

    def build(family: str, **overrides: Any) -> Any:
        words = _OWN_WORDS.get(family) or {**_SIZE, **_FAMILIES.get(family, {})}
        return random_model(family, {**words, **overrides}, noise=0.2)

    return build


@pytest.fixture
def batch() -> Callable[..., Batch]:
    def make(tokens: int = 13, lengths: tuple[int, ...] = (13, 9), masked: int = 3) -> Batch:
        generator = torch.Generator().manual_seed(1)
        shape = (len(lengths), tokens)
        ids, targets = torch.randint(3, VOCABULARY, (2, *shape), generator=generator).unbind(0)
        weight = torch.randn(shape, generator=generator, dtype=torch.float64)
        targets[:, :masked] = -100
        for row, length in enumerate(lengths):
            targets[row, length:] = -100
        return Batch(ids, targets, weight, Layout.causal(lengths, tokens))

    return make


@pytest.fixture
def plain_run() -> Callable[[Any, Batch], tuple[Tensor, dict[str, Tensor]]]:
    """Log-probabilities and gradients of all parameters by ordinary autograd."""

    def run(model: Any, data: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        model = copy.deepcopy(model)
        logp = plain.token_logps(model, data.ids_BT, data.targets_BT, data.layout)
        (logp * data.weight_BT).sum().backward()
        return logp.detach(), gradients(model)

    return run


@pytest.fixture
def streamed_run() -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    """The same, streamed in chunks of `chunk` tokens; `policy` goes to attach."""

    def run(
        model: Any, data: Batch, chunk: int, head: int = 5, policy: Any = None, **scoring: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        model = copy.deepcopy(model)
        with attach(model, chunk_tokens=chunk, **(policy or {})):
            logp = token_logps(
                model, data.ids_BT, data.targets_BT, data.layout, head_chunk_tokens=head, **scoring
            )
            (logp * data.weight_BT).sum().backward()
        return logp.detach(), gradients(model)

    return run


@pytest.fixture
def assert_same() -> Callable[..., None]:
    """Both runs agree: each gradient up to `tolerance` of its norm, or of all gradients' noise."""

    def check(got: Any, want: Any, tolerance: float) -> None:
        logp = got[0].to(want[0].dtype)  # some families make float32 logits in any case
        torch.testing.assert_close(logp, want[0], rtol=tolerance, atol=tolerance)
        assert got[1].keys() == want[1].keys()
        noise = 1e-2 * tolerance * max(float(g.norm()) for g in want[1].values())
        for name, grad in want[1].items():
            error = float((got[1][name] - grad).norm())
            assert error <= tolerance * float(grad.norm()) + noise, f"{name}: {error:.1e}"

    return check


def gradients(model: nn.Module) -> dict[str, Tensor]:
    """Gradient of every parameter that has asked for one, zeros where none arrived."""
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
        if p.requires_grad
    }

"""Policies of every kind that matters to decoding, small enough to sample from in milliseconds."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers

from core.rollout import Sampling, Stream

transformers.logging.set_verbosity_error()

VOCABULARY = 31
_IDS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_SIZE: dict[str, Any] = {
    **_IDS, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
    "max_position_embeddings": 128,
}  # fmt: skip
_FAMILIES: dict[str, dict[str, Any]] = {
    "gemma3_text": {
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3,
        "query_pre_attn_scalar": 4,
    },
    "mistral": {"sliding_window": 3},
    "qwen3_next": {
        "layer_types": ["linear_attention", "full_attention"], "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 8, "linear_num_key_heads": 2,
        "shared_expert_intermediate_size": 8, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
}  # fmt: skip
_OWN_WORDS: dict[str, dict[str, Any]] = {
    "gpt2": {**_IDS, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "gpt_neox": {k: _SIZE[k] for k in _SIZE if k not in {"head_dim", "num_key_value_heads"}},
    "opt": {**_IDS, "hidden_size": 16, "ffn_dim": 24, "num_hidden_layers": 2,
            "num_attention_heads": 4, "max_position_embeddings": 128, "word_embed_proj_dim": 16},
    "bloom": {**_IDS, "hidden_size": 16, "n_layer": 2, "n_head": 4},
    "mamba": {**_IDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tiny(random_model: Callable[..., Any]) -> Callable[..., Any]:
    """Build `tiny(family, **overrides)`: float64, in training mode, no weight near zero."""

    def build(family: str, **overrides: Any) -> Any:
        words = _OWN_WORDS.get(family) or {**_SIZE, **_FAMILIES.get(family, {})}
        return random_model(family, {**words, **overrides}, noise=0.3).train()

    return build


@pytest.fixture
def prompts() -> list[list[int]]:
    return [[5, 6, 7], [9], [3, 4, 5, 6, 7, 8, 9], [11, 12], [13, 14, 15]]


@pytest.fixture
def sampled(prompts: list[list[int]]) -> Callable[..., Any]:
    """Sample answers to `prompts`: `sampled(sampler, **settings of Sampling)`."""

    def sample(sampler: Any, asked: Any = None, rows: Any = None, step: int = 4, **how: Any):
        given = {"group_size": 3, "max_completion_tokens": 6, "stop_ids": frozenset({2}), **how}
        asked = prompts if asked is None else asked
        rows = range(len(asked)) if rows is None else rows
        return sampler.sample(
            asked, rows=rows, stream=Stream(seed=1, step=step), sampling=Sampling(**given)
        )

    return sample

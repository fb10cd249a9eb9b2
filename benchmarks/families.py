"""Toy models of every causal language model type that transformers registers.

Nothing is written down per family: a type's default configuration is taken and whatever sizes it
are made small, by the names that configurations use for them. Layers of every kind that the type
has are kept: lists with one entry a layer are cut to a few layers that between them show each value.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from core.streambp.widen import Widened

VOCABULARY = 61
LARGEST_TOY = 15_000_000  # parameters

_SIZES: dict[int, tuple[str, ...]] = {
    32: ("hidden_size", "n_embd", "d_model", "dim", "embedding_size", "word_embed_proj_dim",
         "emb_dim", "input_embedding_size",
         "output_embedding_size", "pronunciation_embed_dim", "shape_embed_dim", "ple_embed_dim"),
    4: ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
        "encoder_attention_heads", "num_experts", "num_local_experts", "n_routed_experts",
        "moe_num_experts", "sliding_window", "window_size", "attention_window_size",
        "rotary_dim", "linear_num_heads", "attention_heads", "index_n_heads"),
    2: ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers",
        "encoder_layers", "num_key_value_heads", "num_kv_heads", "n_head_kv", "num_experts_per_tok",
        "moe_topk", "moe_k", "num_experts_per_token", "top_k_experts", "linear_num_key_heads",
        "linear_num_value_heads"),
    48: ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size",
         "moe_intermediate_size", "shared_expert_intermediate_size", "decoder_ffn_dim",
         "encoder_ffn_dim", "expert_ffn_hidden_size"),
    8: ("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "linear_key_head_dim",
        "linear_value_head_dim", "linear_head_dim", "mamba_n_heads", "mamba_d_head", "mamba_d_state",
        "state_size", "hidden_size_per_layer_input", "index_head_dim", "global_head_dim"),
    16: ("q_lora_rank", "kv_lora_rank"),
    1: ("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"),
    256: ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length"),
    VOCABULARY: ("vocab_size", "vocab_size_per_layer_input", "pronunciation_vocab_size",
                 "shape_vocab_size", "embedding_vocab_size"),
    0: ("num_kv_shared_layers",),
}  # fmt: skip
_SMALL = {name: size for size, names in _SIZES.items() for name in names}
_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WHERE_NONE = {"head_dim": 8, "num_key_value_heads": 2}  # would be worked out from other sizes
_MORE: dict[str, dict[str, Any]] = {  # what no rule below finds
    "bamba": {"attn_layer_indices": [1]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "mamba2": {"num_heads": 8, "n_groups": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "falcon_h1": {"mamba_d_ssm": 64},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "xmod": {"default_language": "en_XX"},
}
_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers")


class NoToy(ValueError):
    """A type that cannot be built small enough; the message says why."""


def registered_types() -> list[str]:
    """Every type for which transformers has a causal language model, sorted."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def toy_model(model_type: str) -> PreTrainedModel:
    """A toy in float64, with eager experts and no weight near zero. Raises NoToy."""
    try:
        config = toy_config(CONFIG_MAPPING[model_type]())
        with torch.device("meta"):
            size = sum(p.numel() for p in _built(config).parameters())
        torch.manual_seed(0)
        with Widened():  # buffers are worked out here, and shall not be rounded either
            model = _built(config).double() if size <= LARGEST_TOY else None
    except Exception as error:  # any failure of a foreign constructor is a reason
        raise NoToy(f"{type(error).__name__}: {error}") from error
    if model is None:
        raise NoToy(f"{size:,} parameters at the least: a size has a name that is not known")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * (0.2 if parameter.ndim > 1 else 0.1))
    return model.train()


def _built(config: PreTrainedConfig) -> PreTrainedModel:
    return AutoModelForCausalLM.from_config(config, experts_implementation="eager")


def toy_config(big: PreTrainedConfig) -> PreTrainedConfig:
    """The same type of configuration, small."""
    return type(big)(**_shrunk(big))


def _shrunk(big: PreTrainedConfig) -> dict[str, Any]:
    known = {name: value for name, value in vars(big).items() if not name.startswith("_")}
    small: dict[str, Any] = {}
    for name, value in known.items():
        if isinstance(value, PreTrainedConfig):
            small[name] = _shrunk(value) | {"model_type": value.model_type}
        else:
            small.update(_smaller(name, value))
    if "kv_lora_rank" in known and "num_key_value_heads" in known:  # latent attention groups none
        small["num_key_value_heads"] = small["num_attention_heads"]
    return small | _fewer_layers(known) | _MORE.get(big.model_type, {})


def _smaller(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The name with its small value; nothing for what does not size a model."""
    if name in _SMALL and isinstance(value, int) and not isinstance(value, bool):
        yield name, min(_SMALL[name], value) if value else value
    elif value is None and name in _WHERE_NONE:
        yield name, _WHERE_NONE[name]
    elif name in _SPECIAL:
        yield name, _SPECIAL[name]
    elif name == "is_decoder":  # an encoder's class that also serves as a decoder, when told to
        yield name, True
    elif isinstance(value, float) and ("drop" in name or "jitter" in name):
        yield name, 0.0


def _fewer_layers(known: Mapping[str, Any]) -> dict[str, Any]:
    """Cut every list that has one entry a layer, all at the same layers."""
    count_name = next((name for name in _LAYER_COUNTS if isinstance(known.get(name), int)), None)
    if count_name is None:
        return {}
    count = known[count_name]
    whole = {name: value for name, value in known.items() if isinstance(value, list)}
    indices = {name for name in whole if "idx" in name or "indices" in name}
    lists = {name: x for name, x in whole.items() if len(x) == count > 1 and name not in indices}
    kept: list[int] = []
    seen: set[tuple[str, str]] = set()
    for layer in range(count):
        shown = {(name, str(value[layer])) for name, value in lists.items()}
        if not shown <= seen:
            seen |= shown
            kept.append(layer)
    kept = sorted({*kept, *range(2)} if len(kept) <= 1 else kept)
    cut = {name: [value[layer] for layer in kept] for name, value in lists.items()}
    # Where layers are listed by their index, the first is left out, so that there are both kinds.
    listed = {name: [i for i in whole[name] if 0 < i < len(kept)] for name in indices}
    return {count_name: len(kept), **cut, **listed}

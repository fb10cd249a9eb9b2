"""Real models' layer shapes, and what an optimizer holds for them: counted on models without bytes.

The shapes are those of the published configurations; as many decoder layers as fit a budget get real
weights and gradients, filled with small random numbers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedConfig, Qwen2Config

from core.optim import NamedOptimizer
from core.ranks import portion_of
from core.streambp.plan import meta_model

GIB = 2**30
COPIES = 6
"""Weight, gradient, AdamW's moments and root, and what the other optimizers hold, at most."""


def config_of(name: str) -> PreTrainedConfig:
    """The configuration of a model by its name here."""
    match name:
        case "qwen2.5-0.5b":
            return Qwen2Config(
                hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                num_attention_heads=14, num_key_value_heads=2, vocab_size=151_936,
                tie_word_embeddings=True,
            )  # fmt: skip
        case "llama-1b":
            return LlamaConfig(
                hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                num_attention_heads=32, num_key_value_heads=8, vocab_size=128_256,
                tie_word_embeddings=True,
            )  # fmt: skip
        case "llama-7b":
            return LlamaConfig(
                hidden_size=4096, intermediate_size=11_008, num_hidden_layers=32,
                num_attention_heads=32, num_key_value_heads=32, vocab_size=32_000,
                tie_word_embeddings=False,
            )  # fmt: skip
        case "toy":
            return LlamaConfig(
                hidden_size=64, intermediate_size=160, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, vocab_size=256,
                tie_word_embeddings=False,
            )  # fmt: skip
    raise ValueError(f"model {name!r}: use one of {', '.join(MODELS)} or toy")


MODELS = ("qwen2.5-0.5b", "llama-1b", "llama-7b")
"""Smallest first: the last is the one that a report's ratios are about."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """A whole model without bytes, and some of its decoder layers with them."""

    whole: nn.Module
    layers: nn.ModuleList
    layer_count: int


def shapes_of(config: PreTrainedConfig, memory_bytes: int) -> Shapes:
    """Build both; at least one layer, and at most as many as can be stepped in `memory_bytes`."""
    whole = meta_model(config, torch.float32)
    layers: nn.ModuleList = meta_model(config, torch.float32).base_model.layers
    layer_bytes = sum(p.numel() * p.element_size() for p in layers[0].parameters())
    count = max(1, min(len(layers), memory_bytes // (COPIES * layer_bytes)))
    layers = nn.ModuleList(layers[:count]).to_empty(device="cpu")
    generator = torch.Generator().manual_seed(0)
    for parameter in layers.parameters():
        nn.init.normal_(parameter, std=0.02, generator=generator)
        parameter.grad = torch.empty_like(parameter).normal_(std=1e-3, generator=generator)
    return Shapes(whole, layers, count)


def counted_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The state that an optimizer will hold after its first step, from shapes alone."""
    if isinstance(optimizer, NamedOptimizer):
        states = [
            optimizer.fresh_state(portion_of(parameter), group)
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        return sum(_bytes(x) for state in states for x in state.values())
    assert isinstance(optimizer, torch.optim.AdamW)
    return sum(2 * _bytes(p) for group in optimizer.param_groups for p in group["params"])


def held_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The state that an optimizer holds, but for counts of steps."""
    return sum(_bytes(x) for state in optimizer.state.values() for x in state.values())


def _bytes(value: object) -> int:
    return value.numel() * value.element_size() if isinstance(value, Tensor) and value.ndim else 0

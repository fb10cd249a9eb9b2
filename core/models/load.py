"""Weights and tokenizer of a base model: safetensors only, and no code from the model's folder is run."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from core.spec.errors import spec_failure


def load_model(
    source: str | Path, device: torch.device, dtype: torch.dtype = torch.float32
) -> PreTrainedModel:
    """The model in ``dtype`` on ``device``, in training mode. ``source``: a folder or a hub id.

    Raises RunFailure if there are no safetensors weights, not all of them, or no causal language model
    in it.
    """
    try:
        answer: Any = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise _unusable(source, str(error)) from error
    model, loaded = answer
    if loaded["missing_keys"]:
        # transformers would train random numbers in their place.
        raise _unusable(source, f"no weights for {', '.join(sorted(loaded['missing_keys'])[:3])}")
    model.to(device)
    model.train()
    return model


def load_config(source: str | Path) -> PreTrainedConfig:
    """The model's configuration. Raises RunFailure."""
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _unusable(source, str(error)) from error
    return config


def load_tokenizer(source: str | Path, chat_template: str | None = None) -> PreTrainedTokenizerBase:
    """The model's own tokenizer, with another chat template if one is given. Raises RunFailure."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _unusable(source, str(error)) from error
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def _unusable(source: str | Path, reason: str) -> Exception:
    return spec_failure(
        "model_not_trainable",
        f"the model '{Path(source).name}' cannot be loaded: {reason.splitlines()[0]}",
        param="model",
        hint="a model is a folder with config.json, safetensors weights and tokenizer files",
    )

"""Weights and tokenizer of a base model: safetensors only, and no code from the model's folder is run."""

from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from core.spec.errors import spec_failure


def load_model(source: str | Path, device: torch.device) -> PreTrainedModel:
    """The model in float32 on ``device``, in training mode. ``source``: a folder or a hub id.

    Raises RunFailure if there are no safetensors weights, or no causal language model in it.
    """
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _unusable(source, error) from error
    model.to(device)
    model.train()
    return model


def load_tokenizer(source: str | Path) -> PreTrainedTokenizerBase:
    """The model's own tokenizer. Raises RunFailure."""
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            source, trust_remote_code=False
        )
    except (OSError, ValueError) as error:
        raise _unusable(source, error) from error
    return tokenizer


def _unusable(source: str | Path, error: Exception) -> Exception:
    reason = str(error).splitlines()[0]
    return spec_failure(
        "model_not_trainable",
        f"the model '{Path(source).name}' cannot be loaded: {reason}",
        param="model",
        hint="a model is a folder with config.json, safetensors weights and tokenizer files",
    )

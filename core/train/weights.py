"""A run's weights, by the spec's precision: how they are loaded, saved, and found again.

int8 weights are saved twice: dequantised among the model's files, which anybody can load, and as codes
and scales in the training state, from which a run goes on bit for bit.
"""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.models.load import load_model
from core.optim import OptimError, dequantised_tensors, exact_state, quantise_model
from core.spec.errors import spec_failure
from core.spec.trainer import Precision


def computing_dtype(precision: Precision, device_type: str) -> torch.dtype:
    """The dtype in which weights of ``precision`` compute."""
    if precision == "int8":
        return torch.float32 if device_type == "cpu" else torch.bfloat16
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision]


def load_weights(source: str | Path, device: torch.device, precision: Precision) -> PreTrainedModel:
    """The model of ``source`` on ``device``, its weights held in ``precision``. Raises RunFailure."""
    dtype = computing_dtype(precision, device.type)
    if precision != "int8":
        return load_model(source, device, dtype)
    model = load_model(source, torch.device("cpu"), dtype)  # a device may not hold them as they are
    try:
        quantise_model(model)
    except OptimError as error:
        raise spec_failure(
            "model_not_quantisable", str(error), param="trainer.precision"
        ) from error
    nn.Module.to(model, device)
    return model


def saved_tensors(model: PreTrainedModel, precision: Precision) -> dict[str, Tensor] | None:
    """What is saved in the place of the model's own state; None: that itself."""
    return dict(dequantised_tensors(model)) if precision == "int8" else None


def state_of(model: PreTrainedModel, precision: Precision) -> dict[str, Tensor]:
    """What the training state holds of the weights: nothing where the model's files say all."""
    return exact_state(model) if precision == "int8" else {}

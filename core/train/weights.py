"""A run's weights, by the spec's precision: how they are loaded, saved, and found again.

int8 weights are saved twice: dequantised among the model's files, which anybody can load, and as codes
and scales in the training state, from which a run goes on bit for bit. Beside an adapter the weights are
frozen: then the adapter alone is saved, in every checkpoint, and beside it the merged model if asked for.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from core.models.adapter import load_adapter, merged_tensors, save_adapter, with_adapter
from core.models.load import load_model
from core.optim import OptimError, dequantised_tensors, exact_state, quantise_model
from core.ranks import as_stock
from core.spec.adapter import FullSpec
from core.spec.errors import spec_failure
from core.spec.job import JobSpec
from core.spec.trainer import Precision, TrainerSpec

MERGED_FOLDER = "merged"


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


def trained_model(
    spec: JobSpec, source: str, checkpoint: Path | None, device: torch.device
) -> PreTrainedModel:
    """The model that ``spec`` trains, as it is at the beginning or in ``checkpoint``. Raises RunFailure."""
    adapter, precision = spec.trainer.adapter, spec.trainer.precision
    if isinstance(adapter, FullSpec):
        return load_weights(checkpoint or source, device, precision)
    # What is quantised is decided before there are matrices that must not be.
    model = load_weights(source, device, precision)
    with_adapter(model, adapter, seed=spec.seed, base=spec.model)
    if checkpoint is not None:
        load_adapter(model, checkpoint)
    return model


def save_weights(
    model: PreTrainedModel, trainer: TrainerSpec, folder: Path, whole: Mapping[str, Tensor] | None
) -> list[Path]:
    """Write what was trained into ``folder``; gives the folders that hold a model or an adapter.

    ``whole``: all tensors of a model that is spread over ranks.
    """
    if isinstance(trainer.adapter, FullSpec):
        tensors = dict(dequantised_tensors(model)) if trainer.precision == "int8" else None
        if whole is not None:
            tensors = dict(whole)
        with as_stock(model):
            model.save_pretrained(folder, state_dict=tensors)
        return [folder]
    save_adapter(model, folder)
    if not trainer.adapter.merge:
        return [folder]
    merged = folder / MERGED_FOLDER
    model.save_pretrained(
        merged, state_dict=dict(merged_tensors(model, dequantised_tensors(model)))
    )
    return [folder, merged]


def saved_bytes(model: PreTrainedModel, trainer: TrainerSpec) -> int:
    """What `save_weights` writes of tensors; int8 ones count as dequantised."""
    adapter = trainer.adapter
    sizes = [(p.requires_grad, p.numel() * p.element_size()) for p in model.parameters()]
    if isinstance(adapter, FullSpec):
        return sum(size for _, size in sizes)
    trained = sum(size for is_trained, size in sizes if is_trained)
    return trained + (sum(size for _, size in sizes) if adapter.merge else 0)


def state_of(model: PreTrainedModel, trainer: TrainerSpec) -> dict[str, Tensor]:
    """What the training state holds of the weights: nothing where the other files say all."""
    trains_int8 = trainer.precision == "int8" and isinstance(trainer.adapter, FullSpec)
    return exact_state(model) if trains_int8 else {}

"""Low-rank adapters: peft's layers, injected beside the frozen weights of a stock model, and its files.

    y = W x + (alpha / rank) B A dropout(x)        Hu et al., LoRA, arXiv 2106.09685, section 4.1

The model stays the class it was; only its targeted linear layers and experts become peft's. So whatever
streams, measures or samples from a stock model does so from this one, and what is saved is what peft saves:
``PeftModel.from_pretrained(base, folder)`` loads it. A and B are held in float32 where the weights beside
them are narrower: a small step would vanish in bfloat16, and they are small.

A is drawn on the host from the job's seed and B is zero, so a run begins with the model's own answers.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from peft import (
    LoraConfig,
    TaskType,
    get_peft_model_state_dict,
    inject_adapter_in_model,
    set_peft_model_state_dict,
)
from peft.functional import cast_adapter_dtype
from peft.tuners.lora.layer import Linear as LoraLinear
from peft.tuners.lora.layer import ParamWrapper
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from core.models.catalog import ADAPTER_CONFIG_FILE
from core.models.targets import Targets, targets_of
from core.models.weightless import let_experts_run
from core.spec.adapter import LoraSpec

WEIGHTS_FILE = "adapter_model.safetensors"
FILES = (WEIGHTS_FILE, ADAPTER_CONFIG_FILE)

_NAME = "default"  # what peft calls a model's only adapter
_PREFIX = "base_model.model."  # of names in peft's files: where its own wrapper keeps the model
_BASE = ".base_layer"


def with_adapter(model: PreTrainedModel, spec: LoraSpec, *, seed: int, base: str) -> None:
    """Put an adapter into ``model``, whose weights may be int8, and freeze all else.

    ``base``: the name under which the adapter's configuration remembers the model. On the meta device
    the matrices have no bytes either. Raises RunFailure as `targets_of`.
    """
    targets = targets_of(model, spec)
    config = LoraConfig(
        r=spec.rank,
        lora_alpha=spec.alpha,  # type: ignore[arg-type]  # a number that is divided by rank
        lora_dropout=spec.dropout,
        target_modules=_words(spec, targets),
        target_parameters=sorted(targets.experts) or None,
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in targets.linear.values()),
        task_type=TaskType.CAUSAL_LM,
        base_model_name_or_path=base,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model, _NAME, low_cpu_mem_usage=model.device.type == "meta")
    cast_adapter_dtype(model, _NAME)
    if model.device.type == "meta":
        let_experts_run(model)


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapter of ``model`` into ``folder`` as peft does: its matrices, its configuration."""
    # Embeddings are frozen; "auto" would ask the hub about them.
    tensors = get_peft_model_state_dict(model, adapter_name=_NAME, save_embedding_layers=False)
    save_file(
        {_PREFIX + name: value.contiguous() for name, value in tensors.items()},
        folder / WEIGHTS_FILE,
        metadata={"format": "pt"},
    )
    config = _config(model)
    config.inference_mode = True  # whoever loads it wants to use it
    try:
        config.save_pretrained(str(folder))
    finally:
        config.inference_mode = False


def load_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the matrices that `save_adapter` left in ``folder`` into ``model``, bit for bit."""
    tensors = {
        name.removeprefix(_PREFIX): value
        for name, value in load_file(folder / WEIGHTS_FILE).items()
    }
    set_peft_model_state_dict(model, tensors, adapter_name=_NAME)


@contextmanager
def without_adapter(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The model as it is without its adapter, inside the block; it is not to be trained there."""
    layers = [module for module in model.modules() if isinstance(module, LoraLinear | ParamWrapper)]
    for layer in layers:
        layer._disable_adapters = True  # noqa: SLF001  enable_adapters would touch what requires gradient
    try:
        yield model
    finally:
        for layer in layers:
            layer._disable_adapters = False  # noqa: SLF001


@torch.no_grad()
def merged_tensors(
    model: PreTrainedModel, tensors: Iterable[tuple[str, Tensor]]
) -> Iterator[tuple[str, Tensor]]:
    """The stock model's state, its adapter taken into its weights: W + (alpha / rank) B A.

    ``tensors``: what ``model.state_dict()`` holds, as ordinary tensors. Those without an adapter are
    passed on, the others are new and keep their dtype; ``model`` does not change.
    """
    adapted = {
        _weight_of(name, module): module
        for name, module in model.named_modules()
        if isinstance(module, LoraLinear | ParamWrapper)
    }
    for name, value in tensors:
        if ".lora_" in name:
            continue
        name = name.replace(_BASE, "")  # noqa: PLW2901
        if name in adapted:
            value = (value + adapted[name].get_delta_weight(_NAME)).to(value.dtype)  # noqa: PLW2901
        yield name, value


def _words(spec: LoraSpec, targets: Targets) -> str | list[str]:
    """The linear layers as peft is told them: in full beside experts, for which it takes some short names."""
    if targets.experts:
        return sorted(targets.linear)
    return spec.targets if spec.targets == "all-linear" else list(spec.targets)


def _weight_of(name: str, layer: LoraLinear | ParamWrapper) -> str:
    """Name what ``layer`` adapts as the stock model does; one parameter's is nested in another's."""
    parameter = layer.parameter_name if isinstance(layer, ParamWrapper) else "weight"
    return f"{name.replace(_BASE, '')}.{parameter}"


def _config(model: PreTrainedModel) -> LoraConfig:
    config = model.peft_config[_NAME]
    assert isinstance(config, LoraConfig), "with_adapter put it there"
    config.target_modules = sorted(config.target_modules or ())
    return config

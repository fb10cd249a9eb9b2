"""What of a model an adapter is put beside: linear layers, and experts that are held as one tensor.

Families with a mixture of experts hold the matrices of all experts of a layer in one parameter of three
axes, which is no module. peft takes these by name (`target_parameters`): each expert gets two matrices of
its own, and computes with W + (alpha / rank) B A, which is made anew wherever the layer is run.

Legend: E experts, and two axes of whose order peft makes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from peft import LoraConfig
from peft.utils.transformers_weight_conversion import convert_peft_config_for_transformers
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from core.spec.adapter import LoraSpec
from core.spec.errors import spec_failure


@dataclass(frozen=True, slots=True)
class Targets:
    """Linear layers by name; names of experts' parameters."""

    linear: dict[str, nn.Module]
    experts: tuple[str, ...]


def targets_of(model: PreTrainedModel, spec: LoraSpec) -> Targets:
    """What ``spec`` names of ``model``, whose weights may be int8 or on the meta device.

    A target is the name of a layer or of experts, or the end of one. Raises RunFailure for one that is no
    such name, and for dropout beside experts.
    """
    all_of = _there_are(model)
    linear, experts = all_of.linear, all_of.experts
    if spec.targets != "all-linear":
        for target in spec.targets:
            if not any(_named(name, target) for name in (*linear, *experts)):
                raise _no_such_target(target, (*linear, *experts))
        linear = {name: module for name, module in linear.items() if _any(name, spec.targets)}
        experts = tuple(name for name in experts if _any(name, spec.targets))
    if experts and spec.dropout:
        raise _no_dropout(experts[0])
    return Targets(linear, experts)


def _there_are(model: PreTrainedModel) -> Targets:
    linear: dict[str, nn.Module] = {
        name: module
        for name, module in model.named_modules()
        if _is_linear(module) and module is not model.get_output_embeddings()
    }
    experts = tuple(
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if not _is_of_torch(module)
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.ndim == 3 and min(parameter.shape) > 1  # noqa: PLR2004 - see the legend
    )
    return Targets(_told_apart(model, linear) if experts else linear, experts)


def _told_apart(model: PreTrainedModel, linear: dict[str, nn.Module]) -> dict[str, nn.Module]:
    """Leave out layers whose names peft takes for the experts' of old: in some families a shared expert's."""
    config = LoraConfig(target_modules=list(linear))
    convert_peft_config_for_transformers(config, model, None)
    return {name: linear[name] for name in linear if name in (config.target_modules or ())}


def _is_linear(module: nn.Module) -> bool:
    """Say whether it multiplies and does no more: some families' routers inherit from a linear layer."""
    return type(module).forward in {nn.Linear.forward, Conv1D.forward}


def _is_of_torch(module: nn.Module) -> bool:
    """Say whether it is one of torch's own, a convolution for instance, whose axes mean something else."""
    return type(module).__module__.startswith("torch.")


def _named(name: str, target: str) -> bool:
    return name == target or name.endswith("." + target)


def _any(name: str, targets: Iterable[str]) -> bool:
    return any(_named(name, target) for target in targets)


def _no_such_target(target: str, there: Iterable[str]) -> Exception:
    names = sorted({name.rpartition(".")[2] for name in there})
    return spec_failure(
        "no_such_target",
        f"'{target}' is no linear layer of this model that can have an adapter, nor its experts",
        param="trainer.adapter.targets",
        hint=f"choose from {', '.join(names)}; or all-linear for all of them",
    )


def _no_dropout(name: str) -> Exception:
    return spec_failure(
        "dropout_beside_experts",
        f"'{name}' holds all experts of a layer in one tensor, beside which there is no dropout",
        param="trainer.adapter.dropout",
        hint="set it to 0, or name trainer.adapter.targets without the experts",
    )

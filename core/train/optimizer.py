"""From the spec's words to an optimizer and a learning rate."""

from typing import Any, assert_never

import torch
from torch import nn

from core.optim import (
    APOLLO,
    APOLLO_MINI,
    Apollo,
    NamedOptimizer,
    Scale,
    constant,
    cosine,
    linear,
    parameter_groups,
    refuse_int8,
    scale_groups,
)
from core.spec.job import JobSpec
from core.spec.optimizer import (
    AdamWSpec,
    ApolloMiniSpec,
    ApolloSpec,
    OptimizerSpec,
    ScaleSpec,
    SgdSpec,
)
from core.spec.schedule import ConstantSpec, CosineSpec, LinearSpec


def build_optimizer(spec: JobSpec, model: nn.Module) -> torch.optim.Optimizer:
    """The optimizer that the spec names, over the trainable parameters of ``model``."""
    rate = peak_learning_rate(spec)
    return optimizer_of(spec.trainer.optimizer, model, rate=rate, seed=spec.seed)


def optimizer_of(
    chosen: OptimizerSpec, model: nn.Module, *, rate: float, seed: int
) -> torch.optim.Optimizer:
    """One of our own optimizers or of torch's. Raises OptimError for what it cannot train."""
    if isinstance(chosen, AdamWSpec | SgdSpec):
        refuse_int8(_trainable(model), chosen.kind)
    match chosen:
        case ApolloSpec() | ApolloMiniSpec() | ScaleSpec():
            return named_optimizer(chosen, model, rate=rate, seed=seed)
        case AdamWSpec():
            return torch.optim.AdamW(
                _trainable(model),
                lr=rate,
                betas=(chosen.beta1, chosen.beta2),
                eps=chosen.eps,
                weight_decay=chosen.weight_decay,
            )
        case SgdSpec():
            return torch.optim.SGD(
                _trainable(model),
                lr=rate,
                momentum=chosen.momentum,
                weight_decay=chosen.weight_decay,
            )
        case unknown:
            assert_never(unknown)


def named_optimizer(
    chosen: ApolloSpec | ApolloMiniSpec | ScaleSpec, model: nn.Module, *, rate: float, seed: int
) -> NamedOptimizer:
    """One of our own optimizers; on a model without bytes it tells its state's shapes."""
    options: dict[str, Any] = {
        "lr": rate,
        "betas": (chosen.beta1, chosen.beta2),
        "eps": chosen.eps,
        "weight_decay": chosen.weight_decay,
        "seed": seed,
    }
    match chosen:
        case ApolloSpec():
            options |= APOLLO | {"rank": chosen.rank}
        case ApolloMiniSpec():
            options |= APOLLO_MINI
        case ScaleSpec():
            return Scale(scale_groups(model, momentum=chosen.momentum), **options)
        case unknown:
            assert_never(unknown)
    options["scale"] = chosen.scale
    options["projection"] = chosen.projection
    options["update_proj_gap"] = chosen.update_proj_gap
    return Apollo(parameter_groups(model, embeddings=chosen.embeddings), **options)


def peak_learning_rate(spec: JobSpec) -> float:
    """The resolved spec's absolute learning rate."""
    rate = spec.trainer.learning_rate
    assert rate is not None
    return rate


def learning_rate(spec: JobSpec, step: int, total_steps: int) -> float:
    """The learning rate of the 0-based ``step``."""
    schedule = spec.trainer.schedule
    warmup = round(schedule.warmup_ratio * total_steps)
    match schedule:
        case CosineSpec(floor_ratio=floor):
            factor = cosine(step, total_steps, warmup, floor)
        case LinearSpec(floor_ratio=floor):
            factor = linear(step, total_steps, warmup, floor)
        case ConstantSpec():
            factor = constant(step, warmup_steps=warmup)
        case unknown:
            assert_never(unknown)
    return peak_learning_rate(spec) * factor


def _trainable(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]

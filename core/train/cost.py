"""What an optimizer holds and needs, in bytes, for the memory plan: from shapes alone."""

from dataclasses import replace
from typing import Any, assert_never

import torch
from transformers import PreTrainedModel

from core.models.adapter import with_adapter
from core.optim import int8_bytes
from core.optim.parts import part_elements
from core.ranks import portion_of
from core.spec.adapter import AdapterSpec, FullSpec, LoraSpec
from core.spec.optimizer import (
    AdamWSpec,
    ApolloMiniSpec,
    ApolloSpec,
    OptimizerSpec,
    ScaleSpec,
    SgdSpec,
)
from core.spec.trainer import Precision
from core.streambp.plan import StepCost, Wish
from core.train.optimizer import named_optimizer

_ROUNDING_COPIES = 6  # of a part: the wide weight, random words, and what is made of them
_SVD_COPIES = 4  # the gradient, both sides' vectors, and what LAPACK works in
FULL = FullSpec()
_SINGLE = torch.float32.itemsize


def weighed(
    wish: Wish,
    model: PreTrainedModel,
    chosen: OptimizerSpec,
    precision: Precision,
    device_type: str,
    adapter: AdapterSpec = FULL,
) -> Wish:
    """``wish`` with what ``chosen`` costs, and what weights take that are held in ``precision``.

    ``model`` is in the dtype in which these compute, may lie on the meta device, and gets the ``adapter``.
    """
    held = int8_bytes(model) if precision == "int8" else None
    rounded = precision != "float32"
    if isinstance(adapter, LoraSpec):
        with_adapter(model, adapter, seed=0, base="")
        rounded = False  # of its matrices, which are all that is stepped
        if held is not None:
            held += sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    cost = step_cost(model, chosen, foreach=device_type != "cpu", rounded=rounded)
    return replace(wish, step=cost, held_weights=held)


def step_cost(
    model: PreTrainedModel, chosen: OptimizerSpec, *, foreach: bool, rounded: bool
) -> StepCost:
    """The cost of ``chosen`` on ``model``, which may lie on the meta device.

    ``foreach``: whether torch's own optimizers step all weights at once, as they do on a GPU.
    ``rounded``: whether weights are held in less than float32, and updates rounded by chance.
    """
    weights = [p for p in model.parameters() if p.requires_grad]
    held = sum(p.numel() * p.element_size() for p in weights)
    at_once = held if foreach else max(p.numel() * p.element_size() for p in weights)
    match chosen:
        case AdamWSpec():
            return StepCost(2 * held, at_once)  # two moments, and a root of the second
        case SgdSpec():
            return StepCost(held if chosen.momentum else 0, at_once if chosen.weight_decay else 0)
        case ApolloSpec() | ApolloMiniSpec() | ScaleSpec():
            return _named(model, chosen, "cuda" if foreach else "cpu", rounded=rounded)
        case unknown:
            assert_never(unknown)


def _named(
    model: PreTrainedModel, chosen: ApolloSpec | ApolloMiniSpec | ScaleSpec, device_type: str,
    *, rounded: bool,
) -> StepCost:  # fmt: skip
    optimizer = named_optimizer(chosen, model, rate=0.0, seed=0)
    pairs = [
        (parameter, optimizer.fresh_state(portion_of(parameter), group))
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    held = sum(x.numel() * x.element_size() for _, state in pairs for x in _tensors(state))
    tables = {id(getattr(x, "weight", None)) for x in (
        model.get_input_embeddings(), model.get_output_embeddings()
    )}  # fmt: skip
    inside = [pair for pair in pairs if id(pair[0]) not in tables]
    largest = max(parameter.numel() for parameter, _ in pairs)
    # AdamW's m / sqrt(v); SCALE has none, but for vectors.
    root = (
        0 if isinstance(chosen, ScaleSpec) or chosen.embeddings == "apollo" else largest * _SINGLE
    )
    narrow = any(parameter.element_size() < _SINGLE for parameter, _ in pairs)
    part = part_elements(device_type) if rounded else 0
    outer, inner = (_alone(some, chosen, part) for some in (pairs, inside))
    outer += root
    return StepCost(held, outer + (largest * _SINGLE if narrow else 0), outer, inner)


def _alone(
    pairs: list[tuple[torch.Tensor, dict[str, Any]]],
    chosen: ApolloSpec | ApolloMiniSpec | ScaleSpec,
    part: int,
) -> int:
    """Count what the most needy of some weights takes while it is stepped, beside its gradient.

    `part` is how many elements are rounded at once.
    """
    largest = max((p.numel() for p, _ in pairs), default=0)
    # A projected gradient is as large as a moment of it.
    low = (x.numel() for p, state in pairs for x in _tensors(state) if x.shape != p.shape)
    elements = max(low, default=0) + _ROUNDING_COPIES * min(largest, part)
    if not isinstance(chosen, ScaleSpec) and chosen.projection == "svd":
        elements += _SVD_COPIES * largest
    return elements * _SINGLE


def _tensors(state: dict[str, Any]) -> list[torch.Tensor]:
    return [x for x in state.values() if isinstance(x, torch.Tensor)]

"""Parameter groups for SCALE: which weight is the head, and which axis of a weight runs over inputs.

Both are read off the owning module, never off a model family: linear layers hold outputs by inputs;
embeddings, GPT-2's Conv1D and fused experts that say `is_transposed` hold inputs by outputs. Convolutions
are neither and take AdamW, as vectors do.
"""

from typing import Any, Literal

from torch import nn

from core.optim.errors import ParameterError
from core.optim.groups import (
    is_linear_map,
    is_transposed_linear,
    named_trainable,
    output_heads,
)
from core.optim.projection import MATRIX_AXES

Kind = Literal["head", "outputs_first", "inputs_first", "full_rank", "vector"]

OPTIONS: dict[Kind, dict[str, Any]] = {
    "head": {"input_axis": -1},
    "outputs_first": {"input_axis": -1},
    "inputs_first": {"input_axis": -2},
    "full_rank": {"input_axis": None},
    "vector": {"input_axis": None},
}


def scale_groups(
    model: nn.Module, *, momentum: float = 0.9, decay_vectors: bool = False
) -> list[dict[str, Any]]:
    """Up to five groups of (name, parameter) for `Scale`, empty ones left out.

    head           the layer that gives logits, with `momentum`; tied to the embedding or not
    outputs_first  linear layers and fused experts
    inputs_first   embeddings, and linear layers and experts whose weights are transposed
    full_rank      what is no linear map, as convolutions: AdamW
    vector         norms and biases: AdamW, and no weight decay unless `decay_vectors`

    Frozen parameters are left out; a tied weight stands once, under its first name. Raises
    `ParameterError` when nothing is trainable, and when the model has no head to be found.
    """
    kinds = _kinds(model)
    if "head" not in kinds.values():
        remedy = "no output head: name it lm_head, or let get_output_embeddings() return it"
        raise ParameterError("model", type(model).__name__, remedy)
    members: dict[Kind, list[tuple[str, nn.Parameter]]] = {kind: [] for kind in OPTIONS}
    for name, param in named_trainable(model):
        members[kinds[id(param)]].append((name, param))
    groups = [
        {"params": params, "kind": kind, **OPTIONS[kind]}
        for kind, params in members.items()
        if params
    ]
    if not groups:
        raise ParameterError(
            "model", type(model).__name__, "every parameter is frozen; unfreeze some"
        )
    for group in groups:
        if group["kind"] == "head":
            group["momentum"] = momentum
        if group["kind"] == "vector" and not decay_vectors:
            group["weight_decay"] = 0.0
    return groups


def _kinds(model: nn.Module) -> dict[int, Kind]:
    """Give every parameter's kind by identity: of a tied weight's, the head, else the embedding."""
    heads = output_heads(model)
    kinds: dict[int, Kind] = {}
    for module in model.modules():
        for param in module.parameters(recurse=False):
            kind = "head" if module in heads else _kind(module, param)
            if param.ndim < MATRIX_AXES:
                kind = "vector"
            before = kinds.get(id(param))
            if before is None or kind == "head" or isinstance(module, nn.Embedding):
                kinds[id(param)] = "head" if before == "head" else kind
    return kinds


def _kind(module: nn.Module, param: nn.Parameter) -> Kind:
    if isinstance(module, nn.Embedding) or is_transposed_linear(module):
        return "inputs_first"
    if getattr(module, "is_transposed", False):  # transformers' word for experts of that kind
        return "inputs_first"
    # A bare matrix, as a router's, is one for `functional.linear`.
    is_map = is_linear_map(module, param) or param.ndim == MATRIX_AXES
    return "outputs_first" if is_map else "full_rank"

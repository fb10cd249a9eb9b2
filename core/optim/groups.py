"""Parameter groups by what a parameter is: which matrices are low rank, which take AdamW.

APOLLO is for the matrices of attention and MLP layers. Embeddings, the head, norms and biases take
AdamW: their gradients are sparse in rows or are vectors, and a random projection of those says
little. The kind is read off the owning module, never off a model family; patterns on names have the
last word.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from torch import nn

from core.optim.errors import ParameterError, PatternError
from core.optim.projection import EXPERT_AXES, MATRIX_AXES

Kind = Literal["low_rank", "full_rank", "vector"]

_CONVOLUTIONS = (nn.Conv1d, nn.ConvTranspose1d)
_WRAPPERS = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})


def parameter_groups(
    model: nn.Module,
    *,
    embeddings: Literal["adamw", "apollo"] = "adamw",
    low_rank: Sequence[str] = (),
    full_rank: Sequence[str] = (),
    decay_vectors: bool = False,
) -> list[dict[str, Any]]:
    """Up to three groups of (name, parameter) for `Apollo`, empty ones left out.

    low_rank   linear weights, fused experts (E, M, N); embeddings and head if embeddings="apollo"
    full_rank  every other matrix: `rank=None`, hence AdamW
    vector     norms and biases: `rank=None`, and no weight decay unless `decay_vectors`

    `low_rank` and `full_rank` are shell patterns on parameter names (`*.q_proj.weight`) that
    overrule the kind of a matrix. Frozen parameters are left out; a tied weight stands once, under
    its first name.

    Raises `PatternError` for a pattern that matches no trainable matrix or contradicts another, and
    `ParameterError` when nothing is trainable.
    """
    if embeddings not in ("adamw", "apollo"):
        raise ParameterError("embeddings", embeddings, "use 'adamw' or 'apollo'")
    kinds = parameter_kinds(model, embeddings)
    members: dict[Kind, list[tuple[str, nn.Parameter]]] = {
        "low_rank": [],
        "full_rank": [],
        "vector": [],
    }
    used: set[str] = set()
    for name, param in named_trainable(model):
        kind = kinds[id(param)]
        if kind != "vector":
            kind = _overruled(name, kind, low_rank, full_rank, used)
        members[kind].append((name, param))
    require_all_used((*low_rank, *full_rank), used, "trainable matrix")
    if not any(members.values()):
        remedy = "every parameter is frozen; unfreeze some"
        raise ParameterError("model", type(model).__name__, remedy)
    return [
        _group(kind, params, decay_vectors=decay_vectors)
        for kind, params in members.items()
        if params
    ]


def named_trainable(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Each trainable parameter once, under a name that compiling or wrapping does not change."""
    for name, param in model.named_parameters():
        if param.requires_grad:
            yield ".".join(part for part in name.split(".") if part not in _WRAPPERS), param


def _group(
    kind: Kind, params: list[tuple[str, nn.Parameter]], *, decay_vectors: bool
) -> dict[str, Any]:
    group: dict[str, Any] = {"params": params, "kind": kind}
    if kind != "low_rank":
        group["rank"] = None
    if kind == "vector" and not decay_vectors:
        group["weight_decay"] = 0.0
    return group


def parameter_kinds(model: nn.Module, embeddings: str) -> dict[int, Kind]:
    """Give every parameter's kind by identity; a weight tied to an embedding is an embedding."""
    outer: Kind = "low_rank" if embeddings == "apollo" else "full_rank"
    heads = output_heads(model)
    kinds: dict[int, Kind] = {}
    tabled: set[int] = set()
    for module in model.modules():
        is_table = isinstance(module, nn.Embedding) or module in heads
        for param in module.parameters(recurse=False):
            if param.ndim < MATRIX_AXES:
                kinds[id(param)] = "vector"
            elif is_table:
                kinds[id(param)] = outer
                tabled.add(id(param))
            elif id(param) not in tabled:
                kinds[id(param)] = "low_rank" if is_linear_map(module, param) else "full_rank"
    return kinds


def is_linear_map(module: nn.Module, param: nn.Parameter) -> bool:
    """Whether this is a linear layer's matrix, or a stack of them as fused experts hold it."""
    is_linear = isinstance(module, nn.Linear) or is_transposed_linear(module)
    is_stack = param.ndim == EXPERT_AXES and not isinstance(module, _CONVOLUTIONS)
    return (is_linear and param.ndim == MATRIX_AXES) or is_stack


def is_transposed_linear(module: nn.Module) -> bool:
    """Whether this is GPT-2's Conv1D, a linear layer whose weight is inputs by outputs."""
    return type(module).__name__ == "Conv1D"  # the name spares an import


def output_heads(model: nn.Module) -> set[nn.Module]:
    """Find the layers that give logits: what the model says they are, and any lm_head."""
    heads = {module for name, module in model.named_modules() if name.split(".")[-1] == "lm_head"}
    for module in model.modules():
        head = getattr(module, "get_output_embeddings", lambda: None)()
        if head is not None:
            heads.add(head)
    return heads


def _overruled(
    name: str, kind: Kind, low_rank: Sequence[str], full_rank: Sequence[str], used: set[str]
) -> Kind:
    """Give the kind after the user's patterns, and note these in `used`."""
    low = [pattern for pattern in low_rank if fnmatchcase(name, pattern)]
    full = [pattern for pattern in full_rank if fnmatchcase(name, pattern)]
    used.update(low, full)
    if low and full:
        remedy = f"{name} matches this low_rank pattern and the full_rank pattern {full[0]!r}"
        raise PatternError("low_rank", low[0], remedy)
    if low:
        return "low_rank"
    return "full_rank" if full else kind


def require_all_used(patterns: Sequence[str], used: set[str], sought: str) -> None:
    """Raise PatternError for a pattern that is not among the `used` ones."""
    for pattern in patterns:
        if pattern not in used:
            remedy = f"matches no {sought}; compare with model.named_parameters()"
            raise PatternError("pattern", pattern, remedy)

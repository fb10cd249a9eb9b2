"""Optimizer state: how it starts, and how it is found again by parameter name.

torch matches saved state to parameters by position, and casts it to the weight's dtype. Both go
wrong silently: in another order moments land on another parameter of the same shape, and float32
moments of bfloat16 weights lose two thirds of their digits. Here names decide, every
shape is checked, and the bits stay.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from core.optim.errors import StateMismatchError
from core.optim.projection import EXPERT_AXES, MATRIX_AXES
from core.ranks import Portion

ParameterState = dict[str, Any]
"""Tensors and whole numbers by field."""


def is_low_rank(param: Tensor, rank: int | None) -> bool:
    """Whether APOLLO updates this parameter: a matrix or E fused ones, in a group with a rank."""
    return rank is not None and param.ndim in (MATRIX_AXES, EXPERT_AXES)


def adamw_state(value: Tensor) -> ParameterState:
    """Make AdamW's state before the first step: two moments of zero, float32 or wider."""
    zeros = zeros_beside(value)
    return {"step": 0, "exp_avg": zeros(value.shape), "exp_avg_sq": zeros(value.shape)}


def apollo_state(portion: Portion, rank: int, *, keeps_projection: bool) -> ParameterState:
    """Make APOLLO's state before the first step: moments of zero and no remembered norm.

    The moments are (K, R) or (E, K, R): longer side by min(rank, smaller side), of the whole parameter; cut
    as its rows are where K runs over these, or E does. A projection that comes from a gradient cannot be
    drawn again, so it is kept: (L, R) or (E, L, R), zero for none.
    """
    zeros = zeros_beside(portion.value)
    rows, columns = portion.shape[-2:]
    experts = portion.value.shape[:-2]
    kept = portion.value.shape[-2] if rows >= columns else columns
    rank = min(rank, rows, columns)
    state = {
        "step": 0,
        "exp_avg": zeros((*experts, kept, rank)),
        "exp_avg_sq": zeros((*experts, kept, rank)),
        "last_norm": zeros((*experts, 1, 1)),
    }
    if keeps_projection:
        state["projection"] = zeros((*experts, min(rows, columns), rank))
    return state


def whole_state(state: ParameterState, portion: Portion) -> ParameterState:
    """What processes hold of a parameter's state, put together; each must ask."""
    return {
        field: portion.whole(value)
        if _is_cut(field, value, portion.value.shape, portion)
        else value
        for field, value in state.items()
    }


def state_dtype(param: Tensor) -> torch.dtype:
    """Give the precision of state and arithmetic: float32, or the weight's own if it is wider."""
    return torch.promote_types(param.dtype, torch.float32)


def zeros_beside(param: Tensor) -> Callable[..., Tensor]:
    """Give a maker of zeros of the state's precision, on the parameter's device."""
    return functools.partial(torch.zeros, dtype=state_dtype(param), device=param.device)


def match_groups(
    saved_groups: Sequence[Mapping[str, Any]], groups: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Give the saved groups' options in the order of `groups`, names in that group's order.

    Raises `StateMismatchError` unless both partition the same names alike.
    """
    _require_same_names(_names(saved_groups), _names(groups))
    by_names = {frozenset(saved["param_names"]): saved for saved in saved_groups}
    matched = []
    for group in groups:
        names = group["param_names"]
        saved = by_names.get(frozenset(names))
        if saved is None:
            remedy = "saved in other parameter groups; build the optimizer with the same groups"
            raise StateMismatchError("param_groups", list(names), remedy)
        matched.append({**saved, "params": list(range(len(names))), "param_names": list(names)})
    return matched


def states_by_name(state_dict: Mapping[str, Any]) -> dict[str, ParameterState]:
    """Index the saved state of each parameter that had one."""
    found = {}
    for group in state_dict["param_groups"]:
        for index, name in zip(group["params"], group["param_names"], strict=True):
            if index in state_dict["state"]:
                found[name] = state_dict["state"][index]
    return found


def fit_state(
    name: str, saved: ParameterState, fresh: ParameterState, portion: Portion
) -> ParameterState:
    """Copy of `saved` what belongs to `portion`, beside it, if it has the form of `fresh`.

    Both are of the whole parameter; `fresh` needs no bytes.
    """
    if saved.keys() != fresh.keys():
        remedy = f"the fields do not fit; expected {sorted(fresh)}"
        raise StateMismatchError(name, sorted(saved), remedy)
    found: ParameterState = {}
    for field, wanted in fresh.items():
        value = _checked(f"{name}.{field}", saved[field], wanted)
        if isinstance(value, Tensor):
            cut = portion.mesh is not None and _is_cut(field, value, portion.shape, portion)
            rows = value[portion.rows] if cut else value
            value = torch.empty_like(rows, device=portion.value.device).copy_(rows)
        found[field] = value
    return found


def _is_cut(field: str, value: object, shape: torch.Size, portion: Portion) -> bool:
    """Whether a field has a row for each of the parameter's: `value` beside one of this `shape`."""
    if not isinstance(value, Tensor):
        return False
    if len(shape) == EXPERT_AXES:
        return True
    if len(shape) == MATRIX_AXES and field == "last_norm":
        return False
    is_wide = len(shape) == MATRIX_AXES and portion.shape[0] < portion.shape[1]
    return value.shape == shape or not is_wide


def _checked(field: str, saved: object, fresh: object) -> int | Tensor:
    if not isinstance(fresh, Tensor):
        return int(saved)  # type: ignore[call-overload]
    if not isinstance(saved, Tensor) or _form(saved) != _form(fresh):
        held = _form(saved) if isinstance(saved, Tensor) else saved
        raise StateMismatchError(field, held, f"this parameter and rank need {_form(fresh)}")
    return saved


def _form(value: Tensor) -> tuple[tuple[int, ...], torch.dtype]:
    return tuple(value.shape), value.dtype


def _names(groups: Iterable[Mapping[str, Any]]) -> set[str]:
    names: set[str] = set()
    for group in groups:
        if "param_names" not in group:
            remedy = "the saved groups carry no parameter names; this is another optimizer's state"
            raise StateMismatchError("param_names", None, remedy)
        names.update(group["param_names"])
    return names


def _require_same_names(saved: set[str], present: set[str]) -> None:
    for field, names in (("missing", present - saved), ("unexpected", saved - present)):
        if names:
            remedy = "this state is of other parameters; load it into the model it was saved from"
            raise StateMismatchError(f"{field} parameters", sorted(names)[:5], remedy)

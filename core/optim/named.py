"""What Apollo and Scale share: an optimizer that knows its parameters by name.

A subclass says what a parameter's state is and how one parameter steps; here are the loop, stepping
one parameter alone, late groups, and state that is saved and found again by name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from core.optim.descent import Rounder
from core.optim.errors import ParameterError
from core.optim.options import check_options
from core.optim.rounding import rounder_for
from core.optim.state import (
    ParameterState,
    fit_state,
    match_groups,
    states_by_name,
    whole_state,
)
from core.ranks import Portion, portion_of, without_bytes

Group = Mapping[str, Any]
"""A parameter group: every option that the optimizer knows, by name."""


class NamedOptimizer(torch.optim.Optimizer, ABC):
    """A torch optimizer over groups of (name, parameter).

    `defaults` are all its options; a group may set its own, and none besides. Options named
    `stochastic_rounding` and `seed` must be among them. State is tensors and whole numbers.
    Raises `OptionError` and `ParameterError`.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        check_options(defaults, defaults)
        self._places: dict[Tensor, tuple[int, str]] = {}
        super().__init__(params, defaults)

    @abstractmethod
    def fresh_state(self, portion: Portion, group: Group) -> ParameterState:
        """Make the state of what is here of a parameter before its first step, with `step` = 0."""

    @abstractmethod
    def update(
        self, portion: Portion, grad: Tensor, name: str, state: ParameterState, group: Group
    ) -> None:
        """Step what is here of one parameter by its dense gradient; `state["step"]` counts this step."""

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of (name, parameter) pairs, also later, as when a layer is unfrozen."""
        check_options(param_group, self.defaults)
        super().add_param_group(dict(param_group))  # torch fills it; another optimizer may get it
        group = self.param_groups[-1]
        if "param_names" not in group:
            remedy = "pass (name, parameter) pairs: names seed what is random and find the state"
            raise ParameterError("params", "unnamed", remedy)
        taken = {name for _, name in self._places.values()}
        for param, name in zip(group["params"], group["param_names"], strict=True):
            if name in taken:
                raise ParameterError("param_names", name, "give every parameter a name of its own")
            taken.add(name)
            self._places[param] = (len(self.param_groups) - 1, name)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for param in self._places:
            self.step_parameter(param)
        return loss

    @torch.no_grad()
    def step_parameter(self, param: Tensor) -> None:
        """Update this one parameter, as when its gradient is final inside a backward pass.

        Without a gradient nothing happens. The gradient is left as it is.
        """
        if param.grad is None:
            return
        index, name = self._places[param]
        group = self.param_groups[index]
        if param.grad.is_sparse:
            raise ParameterError(name, "sparse gradient", "build the embedding with sparse=False")
        portion = portion_of(param)
        if not self.state[param]:
            self.state[param] = self.fresh_state(portion, group)
        state = self.state[param]
        state["step"] += 1
        self.update(portion, portion.of(param.grad), name, state, group)

    def state_dict(self) -> dict[str, Any]:
        """As torch's, with whole tensors: of weights spread over ranks it is gathered, so all must ask."""
        found = super().state_dict()
        for number, param in enumerate(self._places):
            portion = portion_of(param)
            if portion.mesh is not None and number in found["state"]:
                found["state"][number] = whole_state(found["state"][number], portion)
        return found

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state: by parameter name, in any order, bit for bit.

        Options come from the saved groups. Raises `StateMismatchError`, changing nothing, if names,
        groups, shapes or dtypes do not fit.
        """
        groups = match_groups(state_dict["param_groups"], self.param_groups)
        saved = states_by_name(state_dict)
        states: dict[Tensor, ParameterState] = {}
        for param, (index, name) in self._places.items():
            check_options(groups[index], self.defaults)
            if name in saved:
                fresh = self.fresh_state(without_bytes(param), groups[index])
                portion = portion_of(param)
                states[param] = fit_state(name, saved[name], fresh, portion)
        super().load_state_dict({"state": {}, "param_groups": groups})
        self.state.update(states)


def rounder_of(portion: Portion, name: str, step: int, group: Group) -> Rounder | None:
    """Give what rounds this step of a narrow weight by chance; None: round to nearest."""
    if not group["stochastic_rounding"]:
        return None
    rounder = rounder_for(portion.value, name=name, seed=group["seed"], step=step)
    if rounder is None or not portion.offset:
        return rounder
    return lambda value, *, offset: rounder(value, offset=portion.offset + offset)

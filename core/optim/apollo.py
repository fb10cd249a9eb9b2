"""APOLLO: Adam's moments on a random projection of the gradient, used only to scale the gradient.

For a matrix W with gradient G, kept (longer) side K, compressed (smaller) side L, rank R:

    R   = G P                 P ~ N(0, 1/R), renewed every `update_proj_gap` steps
    R~  = m(R) / (sqrt(v(R)) + eps)
    s_k = |R~_k| / |R_k|      per channel k (APOLLO), or |R~| / |R| per tensor (APOLLO-Mini)
    U   = limit_growth(s G)
    W   = (1 - lr wd) W - lr sqrt(scale) U

Zhu et al., *APOLLO: SGD-like Memory, AdamW-level Performance*, arXiv 2412.05270, algorithm 1.
Written from the paper. The limiter compares norms with earlier norms, so sqrt(scale) before or
after it is the same.

Axes: E fused experts (leading, optional), M N the weight's sides, K the longer and L the smaller
side, R rank.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from core.optim.adamw import Rounder, adam_direction, adamw_update, bias_factor, descend
from core.optim.errors import ParameterError
from core.optim.limiter import limit_growth
from core.optim.options import check_options
from core.optim.projection import Projector, gaussian_projection
from core.optim.rounding import rounder_for
from core.optim.state import (
    ParameterState,
    fit_state,
    fresh_state,
    is_low_rank,
    match_groups,
    states_by_name,
)

_ADAMW_OPTIONS = ("lr", "betas", "eps", "weight_decay", "bias_correction", "decay_after_update")
_APOLLO_OPTIONS = ("scale", "scaling", "growth_limit")
_TINY = 1e-8  # keeps |R~| / |R| finite where a channel has no gradient


def apollo_update(  # noqa: PLR0913 - the rule's own terms, one a line
    weight_MN: Tensor,  # (M, N) or (E, M, N), any floating dtype or int8; changed in place
    grad_MN: Tensor,  # the same shape
    proj_LR: Tensor,  # (L, R) or (E, L, R): P, compressed side first
    exp_avg_KR: Tensor,  # (K, R) or (E, K, R), float32: m of G P; changed in place
    exp_avg_sq_KR: Tensor,  # the same: v of G P; changed in place
    last_norm: Tensor,  # (1, 1) or (E, 1, 1), float32: the limiter's memory; changed in place
    *,
    step: int,  # t, from 1
    lr: float,
    scale: float,  # its square root multiplies the update
    scaling: Literal["channel", "tensor"],
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
    growth_limit: float | None = 1.01,  # gamma; None: no limiter
    bias_correction: bool = True,
    decay_after_update: bool = False,  # decay the updated weight instead of the old one
    rounder: Rounder | None = None,  # None: to nearest
) -> None:
    """One APOLLO step of one matrix, or of each of E fused matrices on its own."""
    tall = weight_MN.shape[-2] >= weight_MN.shape[-1]
    full_MN = grad_MN.to(exp_avg_KR.dtype)
    grad_KL = full_MN if tall else full_MN.mT
    low_KR = grad_KL @ proj_LR
    adapted_KR = adam_direction(low_KR, exp_avg_KR, exp_avg_sq_KR, betas=betas, eps=eps)
    axes = (-1,) if scaling == "channel" else (-2, -1)
    factor = _norm(adapted_KR, axes) / (_norm(low_KR, axes) + _TINY)
    # What was made here may be written over, the caller's gradient may not.
    update_KL = grad_KL * factor if full_MN is grad_MN else grad_KL.mul_(factor)
    if growth_limit is not None:
        limit_growth(update_KL, last_norm, growth_limit)
    descend(
        weight_MN,
        update_KL if tall else update_KL.mT,
        step_size=lr * math.sqrt(scale) * (bias_factor(step, betas) if bias_correction else 1.0),
        decay=lr * weight_decay,
        decay_after_update=decay_after_update,
        rounder=rounder,
    )


def _norm(value: Tensor, axes: tuple[int, ...]) -> Tensor:
    return torch.linalg.vector_norm(value, dim=axes, keepdim=True)


class Apollo(torch.optim.Optimizer):
    """APOLLO, APOLLO-Mini and AdamW, by parameter group, over named parameters.

    params: `parameter_groups(model)`, `model.named_parameters()`, or groups of (name, parameter).
    Options stand for every group that does not set its own:

    lr, betas, eps, weight_decay, bias_correction: as in AdamW, which also takes every parameter
        that is no matrix (nor E fused matrices) and every parameter of a group with `rank=None`
    rank: of the projection, capped at the matrix's smaller side
    scale, scaling, update_proj_gap, growth_limit: see the module and `apollo_update`;
        `Apollo(groups, lr=..., **APOLLO_MINI)` is APOLLO-Mini
    decay_after_update: decay the updated weight, as the authors' code does, not the old one
    stochastic_rounding: of bfloat16 and int8 weights, where a small update to nearest would vanish
    seed: of projections and rounding, together with each parameter's name
    projector: where P comes from

    State is tensors (float32; float64 for float64 weights) and whole numbers; P is never in it.
    Raises `OptionError` and `ParameterError`.
    """

    def __init__(  # noqa: PLR0913 - every option has a reader
        self,
        params: Iterable[Any],
        lr: float,
        *,
        rank: int | None = 256,
        scale: float = 1.0,
        scaling: Literal["channel", "tensor"] = "channel",
        update_proj_gap: int = 200,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        growth_limit: float | None = 1.01,
        bias_correction: bool = True,
        decay_after_update: bool = False,
        stochastic_rounding: bool = True,
        seed: int = 0,
        projector: Projector = gaussian_projection,
    ) -> None:
        defaults = {
            "lr": lr,
            "rank": rank,
            "scale": scale,
            "scaling": scaling,
            "update_proj_gap": update_proj_gap,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "growth_limit": growth_limit,
            "bias_correction": bias_correction,
            "decay_after_update": decay_after_update,
            "stochastic_rounding": stochastic_rounding,
            "seed": seed,
        }
        check_options(defaults)
        self._projector = projector
        self._places: dict[Tensor, tuple[int, str]] = {}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of (name, parameter) pairs, also later, as when a layer is unfrozen."""
        check_options(param_group)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        if "param_names" not in group:
            remedy = "pass (name, parameter) pairs: names seed the projections"
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
        grad = param.grad
        if grad is None:
            return
        index, name = self._places[param]
        group = self.param_groups[index]
        if grad.is_sparse:
            raise ParameterError(name, "sparse gradient", "build the embedding with sparse=False")
        if not self.state[param]:
            self.state[param] = fresh_state(param, group["rank"])
        state = self.state[param]
        state["step"] += 1
        options: dict[str, Any] = {field: group[field] for field in _ADAMW_OPTIONS}
        options["step"] = state["step"]
        if group["stochastic_rounding"]:
            options["rounder"] = rounder_for(
                param, name=name, seed=group["seed"], step=state["step"]
            )
        moment1, moment2 = state["exp_avg"], state["exp_avg_sq"]
        if is_low_rank(param, group["rank"]):
            options.update({field: group[field] for field in _APOLLO_OPTIONS})
            proj_LR = self._projection(param, name, group)
            apollo_update(param, grad, proj_LR, moment1, moment2, state["last_norm"], **options)
        else:
            adamw_update(param, grad, moment1, moment2, **options)

    def _projection(self, param: Tensor, name: str, group: dict[str, Any]) -> Tensor:
        """Draw P for the step that `param` is at."""
        state = self.state[param]
        proj_LR = self._projector(
            name,
            tuple(param.shape),
            state["exp_avg"].shape[-1],
            (state["step"] - 1) // group["update_proj_gap"],
            seed=group["seed"],
            device=param.device,
        )
        return proj_LR.to(state["exp_avg"].dtype)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a saved state: by parameter name, in any order, bit for bit.

        Options come from the saved groups. Raises `StateMismatchError`, changing nothing, if names,
        groups, shapes or dtypes do not fit.
        """
        groups = match_groups(state_dict["param_groups"], self.param_groups)
        saved = states_by_name(state_dict)
        states: dict[Tensor, ParameterState] = {}
        for param, (index, name) in self._places.items():
            check_options(groups[index])
            if name in saved:
                fresh = fresh_state(param, groups[index]["rank"])
                states[param] = fit_state(name, saved[name], fresh)
        super().load_state_dict({"state": {}, "param_groups": groups})
        self.state.update(states)

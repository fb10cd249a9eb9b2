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
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor

from core.optim.adamw import adam_direction, adamw_update, bias_factor
from core.optim.descent import Rounder, descend
from core.optim.errors import OptionError
from core.optim.limiter import limit_growth
from core.optim.named import Group, NamedOptimizer, rounder_of
from core.optim.norms import channel_norms, matrix_norms, row_blocks
from core.optim.projection import (
    EXPERT_AXES,
    MATRIX_AXES,
    RANDOM,
    Projection,
    Projector,
    svd_projection,
)
from core.optim.state import ParameterState, adamw_state, apollo_state, is_low_rank
from core.ranks import Portion

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
    portion: Portion | None = None,  # of whose matrix these are some rows; None: all are here
) -> None:
    """One APOLLO step of one matrix, or of each of E fused matrices on its own.

    Of a matrix whose rows are cut: a tall one's M, K and moments are those rows' alone, a wide one's M,
    L and P are, and its moments are the whole's, the same everywhere.
    """
    full_MN = grad_MN.to(exp_avg_KR.dtype)
    rows = portion or Portion(full_MN, 0, full_MN.shape, None)
    tall = is_tall(rows.shape)
    low_KR = _compressed(full_MN, proj_LR, tall=tall)
    if not tall:
        low_KR = rows.total(low_KR)
    low, adapted = _adapted_norms(low_KR, exp_avg_KR, exp_avg_sq_KR, betas=betas, eps=eps)
    if scaling == "tensor":
        low, adapted = matrix_norms(low), matrix_norms(adapted)
        if tall:
            low, adapted = rows.norm(low), rows.norm(adapted)
    factor = adapted / low.add_(_TINY)
    if not tall:
        factor = factor.mT  # (K, 1) stands along the columns, (1, 1) is as it is
    if growth_limit is not None:
        norm = _scaled_norm(full_MN, factor, rows, scaling)
        factor = factor * limit_growth(norm, last_norm, growth_limit)
    descend(
        weight_MN,
        full_MN,
        factor=factor,
        step_size=lr * math.sqrt(scale) * (bias_factor(step, betas) if bias_correction else 1.0),
        decay=lr * weight_decay,
        decay_after_update=decay_after_update,
        rounder=rounder,
    )


def is_tall(shape: torch.Size) -> bool:
    """Whether a matrix's rows are the kept side K, and each row of L entries is compressed."""
    return shape[-2] >= shape[-1]


def _compressed(full_MN: Tensor, proj_LR: Tensor, *, tall: bool) -> Tensor:
    """R = G P, as (K, R), by the product that reads G in the order in which it lies."""
    return full_MN @ proj_LR if tall else (proj_LR.mT @ full_MN).mT.contiguous()


def _adapted_norms(
    low_KR: Tensor,
    exp_avg_KR: Tensor,
    exp_avg_sq_KR: Tensor,
    *,
    betas: tuple[float, float],
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Take R into the moments, and give the norms of R's and R~'s channels, (K, 1) each."""
    low, adapted = [], []
    for part_KR, m_KR, v_KR in row_blocks(low_KR, exp_avg_KR, exp_avg_sq_KR):
        low.append(channel_norms(part_KR, -1))
        direction_KR = adam_direction(part_KR, m_KR, v_KR, betas=betas, eps=eps)
        adapted.append(channel_norms(direction_KR, -1))
    return torch.cat(low, dim=-2), torch.cat(adapted, dim=-2)


def _scaled_norm(
    full_MN: Tensor, factor: Tensor, rows: Portion, scaling: Literal["channel", "tensor"]
) -> Tensor:
    """|s G| of each matrix, from the norms of its channels, so that s G is never stored."""
    if scaling == "tensor":
        return rows.norm(matrix_norms(full_MN)) * factor
    if is_tall(rows.shape):
        return rows.norm(matrix_norms(channel_norms(full_MN, -1) * factor))
    return matrix_norms(rows.norm(channel_norms(full_MN, -2)) * factor)


class Apollo(NamedOptimizer):
    """APOLLO, APOLLO-Mini and AdamW, by parameter group, over named parameters.

    params: `parameter_groups(model)`, `model.named_parameters()`, or groups of (name, parameter).
    Options stand for every group that does not set its own:

    lr, betas, eps, weight_decay, bias_correction: as in AdamW, which also takes every parameter
        that is no matrix (nor E fused matrices) and every parameter of a group with `rank=None`
    rank: of the projection, capped at the matrix's smaller side
    scale, scaling, update_proj_gap, growth_limit: see the module and `apollo_update`;
        `Apollo(groups, lr=..., **APOLLO_MINI)` is APOLLO-Mini
    projection: where P comes from: "gaussian", "rademacher" (cheaper to draw) or "svd" (slow, for
        comparison); see `core.optim.projection`
    decay_after_update: decay the updated weight, as the authors' code does, not the old one
    stochastic_rounding: of bfloat16 and int8 weights, where a small update to nearest would vanish
    seed: of projections and rounding, together with each parameter's name
    projector: a random P of one's own, in place of the drawn one

    State is tensors (float32; float64 for float64 weights) and whole numbers. A random P is never in
    it; the one of `projection="svd"` is, until the next refresh, for a resumed run has no gradient to
    find it in again.
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
        projection: Projection = "gaussian",
        update_proj_gap: int = 200,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        growth_limit: float | None = 1.01,
        bias_correction: bool = True,
        decay_after_update: bool = False,
        stochastic_rounding: bool = True,
        seed: int = 0,
        projector: Projector | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "rank": rank,
            "scale": scale,
            "scaling": scaling,
            "projection": projection,
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
        self._projector = projector
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As `NamedOptimizer`; raises `OptionError` for a projector beside projection="svd"."""
        super().add_param_group(param_group)
        if self._projector is not None and self.param_groups[-1]["projection"] == "svd":
            remedy = "give no projector of your own: svd finds P in the gradient"
            raise OptionError("projection", "svd", remedy)

    def fresh_state(self, portion: Portion, group: Group) -> ParameterState:
        """Moments of the projected gradient, or AdamW's."""
        if not is_low_rank(portion.value, group["rank"]):
            return adamw_state(portion.value)
        keeps_projection = group["projection"] == "svd"
        return apollo_state(portion, group["rank"], keeps_projection=keeps_projection)

    def update(
        self, portion: Portion, grad: Tensor, name: str, state: ParameterState, group: Group
    ) -> None:
        """Step one parameter by APOLLO or AdamW."""
        options: dict[str, Any] = {field: group[field] for field in _ADAMW_OPTIONS}
        options.update(step=state["step"], rounder=rounder_of(portion, name, state["step"], group))
        moments = state["exp_avg"], state["exp_avg_sq"]
        if is_low_rank(portion.value, group["rank"]):
            options.update({field: group[field] for field in _APOLLO_OPTIONS})
            if grad.ndim == MATRIX_AXES:  # experts are whole wherever they are
                options["portion"] = portion
            proj_LR = self._projection(portion, grad, name, state, group)
            apollo_update(portion.value, grad, proj_LR, *moments, state["last_norm"], **options)
        else:
            adamw_update(portion.value, grad, *moments, **options)

    def _projection(
        self, portion: Portion, grad: Tensor, name: str, state: ParameterState, group: Group
    ) -> Tensor:
        """Draw or look up P, or the rows of it that belong to `portion`, for the step of `state`."""
        refresh, since = divmod(state["step"] - 1, group["update_proj_gap"])
        if group["projection"] == "svd":
            _refit(state["projection"], grad, due=since == 0)
            return state["projection"]
        draw = self._projector or RANDOM[group["projection"]]
        rank = state["exp_avg"].shape[-1]
        cut: dict[str, tuple[int, int]] = {}
        if portion.mesh is not None:
            here = (portion.rows.start, portion.rows.stop)
            if len(portion.shape) == EXPERT_AXES:
                cut["experts"] = here
            elif not is_tall(portion.shape):
                cut["side"] = here
        proj_LR = draw(
            name, tuple(portion.shape), rank, refresh,
            seed=group["seed"], device=portion.value.device, **cut,
        )  # fmt: skip
        return proj_LR.to(state["exp_avg"].dtype)


def _refit(proj_LR: Tensor, grad_MN: Tensor, *, due: bool) -> None:
    """Fit P, in place, where it is due or there is none yet; zeros have no singular vectors."""

    def is_any(value: Tensor) -> Tensor:
        return value.any(dim=-1, keepdim=True).any(dim=-2, keepdim=True)

    wanted = is_any(grad_MN) & (~is_any(proj_LR) | due)
    if wanted.any():
        full_MN = grad_MN.to(proj_LR.dtype)
        full_KL = full_MN if is_tall(full_MN.shape) else full_MN.mT
        proj_LR.copy_(torch.where(wanted, svd_projection(full_KL, proj_LR.shape[-1]), proj_LR))

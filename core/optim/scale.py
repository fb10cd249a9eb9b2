"""SCALE: columns of the gradient brought to one length, and momentum for the output head alone.

For a matrix W with gradient G, written inputs by outputs, so that a column belongs to one output:

    M   = b M + (1 - b) G              the head; elsewhere M = G, and there is no state
    C_j = M_j sqrt(inputs) / |M_j|     per column j
    W   = (1 - lr wd) W - lr C

Glentis, Li, Han, Hong, *Memory-Efficient LLM Pretraining via Minimalist Optimizer Design*, arXiv
2506.16659, algorithm 1: column normalisation does what Adam's second moment is for, and the head, whose
gradient is the noisiest, needs the first. The paper's columns have length 1 and each layer a
learning rate of its own; here they have a root mean square of 1, which is the same with a layer's
rate times sqrt(inputs), so that one rate serves all matrices, and the vectors, which take Adam.

torch's linear layers hold outputs by inputs: the paper's columns are their rows. An embedding's
inputs are the vocabulary: its columns are its columns. A head tied to the embedding is one weight with
one gradient, and is taken for what needs more: the head, with momentum, one column a token.

Axes: M N the weight's sides, either of which may run over inputs; E fused experts before them.
"""

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor

from core.optim.adamw import adamw_update
from core.optim.descent import Rounder, descend
from core.optim.named import Group, NamedOptimizer, rounder_of
from core.optim.norms import channel_norms
from core.optim.projection import EXPERT_AXES, MATRIX_AXES
from core.optim.state import ParameterState, adamw_state, state_dtype, zeros_beside
from core.ranks import Portion

_TINY = 1e-8  # a root mean square that is nothing: a token that was not seen


def scale_update(  # noqa: PLR0913 - the rule's own terms, one a line
    weight_MN: Tensor,  # (M, N) or (E, M, N), any floating dtype; changed in place
    grad_MN: Tensor,  # the same shape
    exp_avg_MN: Tensor | None,  # the same shape, float32: M, changed in place; None: no momentum
    *,
    lr: float,
    momentum: float | None,  # b; read with `exp_avg_MN` only
    input_axis: int,  # -1 or -2: the axis that runs over the inputs
    weight_decay: float,
    rounder: Rounder | None = None,  # None: to nearest
    portion: Portion | None = None,  # of whose matrix these are some rows; None: all are here
) -> None:
    """One SCALE step of one matrix, or of each of E fused matrices."""
    direction_MN = grad_MN.to(state_dtype(weight_MN))
    if exp_avg_MN is not None and momentum is not None:
        direction_MN = exp_avg_MN.lerp_(direction_MN, 1.0 - momentum)
    shape = weight_MN.shape if portion is None else portion.shape
    root = math.sqrt(shape[input_axis])
    norms = channel_norms(direction_MN, input_axis)
    if portion is not None and input_axis == -2:  # noqa: PLR2004 - along the rows, which are cut
        norms = portion.norm(norms)
    descend(
        weight_MN,
        direction_MN,
        factor=root / norms.clamp_(min=_TINY * root),
        step_size=lr,
        decay=lr * weight_decay,
        rounder=rounder,
    )


class Scale(NamedOptimizer):
    """SCALE and AdamW, by parameter group, over named parameters.

    params: `scale_groups(model)`, or groups of (name, parameter). Options stand for every group that
    does not set its own:

    lr, weight_decay: of all; betas, eps: of AdamW, which takes what is no matrix (nor E fused
        matrices), and every parameter of a group with `input_axis=None`
    input_axis: -1 for weights that are outputs by inputs, -2 for inputs by outputs
    momentum: None for no momentum and no state
    stochastic_rounding: of bfloat16 weights, where a small update to nearest would vanish
    seed: of the rounding, together with each parameter's name

    State is tensors (float32; float64 for float64 weights) and whole numbers.
    Raises `OptionError` and `ParameterError`.
    """

    def __init__(  # noqa: PLR0913 - every option has a reader
        self,
        params: Iterable[Any],
        lr: float,
        *,
        momentum: float | None = None,
        input_axis: int | None = -1,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        stochastic_rounding: bool = True,
        seed: int = 0,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "input_axis": input_axis,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "stochastic_rounding": stochastic_rounding,
            "seed": seed,
        }
        super().__init__(params, defaults)

    def fresh_state(self, portion: Portion, group: Group) -> ParameterState:
        """Nothing but the count of steps, the head's momentum, or AdamW's moments."""
        value = portion.value
        if not _is_scaled(value, group):
            return adamw_state(value)
        if group["momentum"] is None:
            return {"step": 0}
        return {"step": 0, "exp_avg": zeros_beside(value)(value.shape)}

    def update(
        self, portion: Portion, grad: Tensor, name: str, state: ParameterState, group: Group
    ) -> None:
        """Step one parameter by SCALE or AdamW."""
        value = portion.value
        rounder = rounder_of(portion, name, state["step"], group)
        rates: dict[str, Any] = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
        if _is_scaled(value, group):
            scale_update(
                value,
                grad,
                state.get("exp_avg"),
                momentum=group["momentum"],
                input_axis=group["input_axis"],
                rounder=rounder,
                portion=portion if grad.ndim == MATRIX_AXES else None,
                **rates,
            )
        else:
            rates.update(step=state["step"], betas=group["betas"], eps=group["eps"])
            adamw_update(
                value, grad, state["exp_avg"], state["exp_avg_sq"], rounder=rounder, **rates
            )


def _is_scaled(value: Tensor, group: Group) -> bool:
    return group["input_axis"] is not None and value.ndim in (MATRIX_AXES, EXPERT_AXES)

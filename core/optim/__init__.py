"""Optimizers: APOLLO on projected gradients, SCALE, AdamW beside both; int8 weights; learning rates.

`Apollo(parameter_groups(model), lr=1e-3, **APOLLO_MINI)` and `Scale(scale_groups(model), lr=1e-3)` are
ordinary torch optimizers, which after `quantise_model(model)` train int8 weights.
"""

from core.optim.apollo import Apollo, apollo_update
from core.optim.errors import (
    OptimError,
    OptionError,
    ParameterError,
    PatternError,
    StateMismatchError,
)
from core.optim.fused import FusedStep
from core.optim.groups import parameter_groups
from core.optim.int8 import Int8Weight
from core.optim.int8_model import (
    dequantised_tensors,
    exact_state,
    int8_bytes,
    load_exact_state,
    quantise_model,
    refuse_int8,
)
from core.optim.named import NamedOptimizer
from core.optim.options import APOLLO, APOLLO_MINI
from core.optim.projection import (
    Projector,
    gaussian_projection,
    rademacher_projection,
    svd_projection,
)
from core.optim.scale import Scale, scale_update
from core.optim.scale_groups import scale_groups
from core.optim.schedule import constant, cosine, linear
from core.optim.whole_norm import gradient_norm

__all__ = [
    "APOLLO",
    "APOLLO_MINI",
    "Apollo",
    "FusedStep",
    "Int8Weight",
    "NamedOptimizer",
    "OptimError",
    "OptionError",
    "ParameterError",
    "PatternError",
    "Projector",
    "Scale",
    "StateMismatchError",
    "apollo_update",
    "constant",
    "cosine",
    "dequantised_tensors",
    "exact_state",
    "gaussian_projection",
    "gradient_norm",
    "int8_bytes",
    "linear",
    "load_exact_state",
    "parameter_groups",
    "quantise_model",
    "rademacher_projection",
    "refuse_int8",
    "scale_groups",
    "scale_update",
    "svd_projection",
]

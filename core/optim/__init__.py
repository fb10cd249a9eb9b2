"""Optimizers: APOLLO on projected gradients, AdamW beside it, int8 weights, learning rates.

`Apollo(parameter_groups(model), lr=1e-3, **APOLLO_MINI)` is an ordinary torch optimizer, and after
`quantise_model(model)` it trains int8 weights.
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
    load_exact_state,
    quantise_model,
    refuse_int8,
)
from core.optim.options import APOLLO, APOLLO_MINI
from core.optim.projection import Projector, gaussian_projection
from core.optim.schedule import constant, cosine, linear

__all__ = [
    "APOLLO",
    "APOLLO_MINI",
    "Apollo",
    "FusedStep",
    "Int8Weight",
    "OptimError",
    "OptionError",
    "ParameterError",
    "PatternError",
    "Projector",
    "StateMismatchError",
    "apollo_update",
    "constant",
    "cosine",
    "dequantised_tensors",
    "exact_state",
    "gaussian_projection",
    "linear",
    "load_exact_state",
    "parameter_groups",
    "quantise_model",
    "refuse_int8",
]

"""Optimizers: APOLLO on projected gradients, AdamW beside it, and learning rates as functions.

`Apollo(parameter_groups(model), lr=1e-3, **APOLLO_MINI)` is an ordinary torch optimizer.
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
from core.optim.options import APOLLO, APOLLO_MINI
from core.optim.projection import Projector, gaussian_projection
from core.optim.schedule import constant, cosine, linear

__all__ = [
    "APOLLO",
    "APOLLO_MINI",
    "Apollo",
    "FusedStep",
    "OptimError",
    "OptionError",
    "ParameterError",
    "PatternError",
    "Projector",
    "StateMismatchError",
    "apollo_update",
    "constant",
    "cosine",
    "gaussian_projection",
    "linear",
    "parameter_groups",
]

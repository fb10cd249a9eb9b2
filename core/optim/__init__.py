"""Optimizers: APOLLO on projected gradients, SCALE, AdamW beside both, and learning-rate schedules.

`Apollo(parameter_groups(model), lr=1e-3, **APOLLO_MINI)` and `Scale(scale_groups(model), lr=1e-3)` are
ordinary torch optimizers.
"""

from core.optim.apollo import Apollo, apollo_update
from core.optim.errors import (
    OptimError,
    OptionError,
    ParameterError,
    PatternError,
    StateMismatchError,
)
from core.optim.groups import parameter_groups
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

__all__ = [
    "APOLLO",
    "APOLLO_MINI",
    "Apollo",
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
    "gaussian_projection",
    "linear",
    "parameter_groups",
    "rademacher_projection",
    "scale_groups",
    "scale_update",
    "svd_projection",
]

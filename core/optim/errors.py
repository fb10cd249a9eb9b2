"""What can be wrong with an optimizer before it has taken a step, and who has to act.

OptimError
├── OptionError          a hyperparameter outside its range, or one that nothing reads
├── PatternError         a name pattern that matches nothing, or two that contradict each other
├── ParameterError       parameters without names, named twice, or none left to train
└── StateMismatchError   a saved state that belongs to other parameters or other shapes

All are `ValueError`s and the user's to mend; each tells the field, the value and the remedy.
"""

from core.spec.field_error import FieldError


class OptimError(FieldError):
    """Tells which `field` held which `value`, and the `remedy`."""

    code = "invalid_optimizer"
    fault = "user"


class OptionError(OptimError):
    """A hyperparameter that cannot be used as given."""

    code = "invalid_optimizer_option"


class PatternError(OptimError):
    """A parameter name pattern that does not do what its author meant."""

    code = "invalid_parameter_pattern"


class ParameterError(OptimError):
    """Parameters that the optimizer cannot tell apart or has no use for."""

    code = "invalid_parameters"


class StateMismatchError(OptimError):
    """A saved state that does not belong to these parameters."""

    code = "optimizer_state_mismatch"

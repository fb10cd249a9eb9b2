"""What can be wrong with a sampling. Both are the caller's to mend; each tells field, value, remedy.

RolloutError
├── SamplingError        a prompt, a number or logits from which nothing can be drawn
└── UndecodableError     a model that does not decode token by token as it computes whole rows
"""

from core.spec.field_error import FieldError


class RolloutError(FieldError):
    """Tells which `field` held which `value`, and the `remedy`."""


class SamplingError(RolloutError):
    """Nothing can be drawn as asked."""


class UndecodableError(RolloutError):
    """The model cannot be decoded with a cache."""

"""What can be wrong with a sampling. Both are the caller's to mend; each tells field, value, remedy.

RolloutError
├── SamplingError        a prompt, a number or logits from which nothing can be drawn
└── UndecodableError     a model that does not decode token by token as it computes whole rows
"""


class RolloutError(ValueError):
    """Tells which `field` held which `value`, and the `remedy`."""

    def __init__(self, field: str, value: object, remedy: str) -> None:
        super().__init__(f"{field} = {value!r}: {remedy}")
        self.field = field
        self.value = value
        self.remedy = remedy


class SamplingError(RolloutError):
    """Nothing can be drawn as asked."""


class UndecodableError(RolloutError):
    """The model cannot be decoded with a cache."""

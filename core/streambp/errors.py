"""What can go wrong when a model is streamed. Every error tells the field, its value, the remedy.

All are a StreamError, a fault of the caller: ChunkLengthError, LayoutError, TargetError,
UnsupportedModelError, UnknownHeadError, TemperatureError, LinearityError, PolicyError,
StoreError, AttachmentError, LayerCallError, PlanError and its BudgetError.
"""

from core.spec.field_error import FieldError


class StreamError(FieldError):
    """A fault of the caller: `field` was wrong, `value` is what it was, `remedy` what to do."""


class ChunkLengthError(StreamError):
    """A chunk must hold at least one token."""


class LayoutError(StreamError):
    """The layout does not describe the tokens."""


class TargetError(StreamError):
    """The targets do not fit the inputs."""


class UnsupportedModelError(StreamError):
    """The model is no causal language model with decoder layers."""


class UnknownHeadError(StreamError):
    """The model's head computes something that is not known here."""


class TemperatureError(StreamError):
    """Logits are divided by a finite number above 0."""


class PolicyError(StreamError):
    """What is to be kept, or where, is not said in words that are known here."""


class StoreError(StreamError):
    """What a layer keeps cannot be written where it is to be kept."""


class AttachmentError(StreamError):
    """The model is attached already, or not at all."""


class LayerCallError(StreamError):
    """A streamed layer was called in a way that cannot be streamed."""


class PlanError(StreamError):
    """No memory plan can be made: of this model, or within this budget."""


class BudgetError(PlanError):
    """The plan does not fit into the budget."""


def at_least_one(field: str, tokens: int) -> int:
    """Return `tokens` unchanged; raise `ChunkLengthError` unless it is a whole number >= 1."""
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise ChunkLengthError(field, tokens, "give a whole number of tokens, at least 1")
    return tokens

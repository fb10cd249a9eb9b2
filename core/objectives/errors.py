"""What an objective refuses. The error tells the field, its value, the remedy."""

from math import isfinite

from core.spec.field_error import FieldError


class ObjectiveError(FieldError):
    """A fault of the caller: `field` was wrong, `value` is what it was, `remedy` what to do."""


class NormaliserError(ObjectiveError):
    """A step that has nothing to learn from is no step: the caller must make none."""


class AnswerError(ObjectiveError):
    """Tokens and answers do not fit each other."""


class BaselineError(ObjectiveError):
    """The reference's log-probabilities are missing, or given where nothing reads them."""


class RewardError(ObjectiveError):
    """Rewards from which no advantage follows."""


def positive(normaliser: float) -> float:
    """Return `normaliser` unchanged; raise NormaliserError unless it is finite and above 0."""
    if not (isfinite(normaliser) and normaliser > 0):
        raise NormaliserError(
            "normaliser",
            normaliser,
            "give a count above 0 of the whole step; a step without is none",
        )
    return normaliser

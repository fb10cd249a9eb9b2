"""What must be known of a model before its weights are loaded: read from its ``config.json``."""

from core.spec.tree import Spec


class ModelFacts(Spec):
    """The facts by which a spec is resolved and checked."""

    name: str
    architecture: str
    longest_context: int | None
    """Positions that the model was made for, in tokens; None if its configuration sets no limit."""
    vocabulary: int

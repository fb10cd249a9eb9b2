"""What was found of each family, counted, and written as the page docs/families.md."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import transformers

EXACT = ("streamed", "partly", "checkpointed")

_HEAD = """\
# Families

Every causal language model type that transformers {version} registers, at toy size in float64: gradients of
all parameters streamed in chunks of 1, 4 and more than all tokens, compared with plain autograd. The
models' own casts to float32 are widened to float64 for the comparison, so that a mistake cannot hide in their
rounding; the last error is the one with those casts.

Written by `python -m benchmarks.exactness --write docs/families.md`; do not edit.

| | |
|---|---|
{counts}

*Streamed*: every layer walks its tokens in chunks. *Partly*: some layers do, the others are checkpointed
whole. *Checkpointed*: all layers are. *Refused*: the engine says that it cannot, before any training step.
*Unbuilt*: transformers itself does not build or run the type at toy size, so nothing is claimed.

| type | status | layers streamed | worst relative error | with own casts | refused, or falls back, because |
|---|---|---|---|---|---|
"""
_LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class Family:
    """How one type fared. `reason` is of the refusal, or of the layers that fall back."""

    model_type: str
    status: str
    worst_relative_error: float | None = None
    with_own_casts: float | None = None
    streamed_layers: int = 0
    layers: int = 0
    reason: str = ""


def summary(families: Sequence[Family]) -> dict[str, Any]:
    """Counts, and the worst error among the exact."""
    count = Counter(family.status for family in families)
    errors = [family.worst_relative_error or 0.0 for family in families if family.status in EXACT]
    casting = [family.with_own_casts or 0.0 for family in families if family.status in EXACT]
    return {
        "families": len(families),
        "families_streamed": count["streamed"],
        "families_partly": count["partly"],
        "families_checkpointed": count["checkpointed"],
        "families_refused": count["refused"],
        "families_unbuilt": count["unbuilt"],
        "families_exact": len(errors),
        "families_wrong": count["wrong"],
        "worst_relative_error": max(errors, default=None),
        "worst_with_own_casts": max(casting, default=None),
    }


def page(families: Sequence[Family], found: dict[str, Any]) -> str:
    """Markdown, one row a type."""
    counts = "\n".join(f"| {name} | {_number(value)} |" for name, value in found.items())
    rows = [_row(family) for family in families]
    return _HEAD.format(version=transformers.__version__, counts=counts) + "\n".join(rows) + "\n"


def _row(family: Family) -> str:
    layers = f"{family.streamed_layers} of {family.layers}" if family.layers else ""
    both = (family.worst_relative_error, family.with_own_casts)
    error, casting = ("" if x is None else f"{x:.0e}" for x in both)
    reason = family.reason.replace("|", "\\|")
    if len(reason) > _LONGEST_REASON:
        reason = reason[:_LONGEST_REASON] + " ..."
    return f"| {family.model_type} | {family.status} | {layers} | {error} | {casting} | {reason} |"


def _number(value: Any) -> str:
    return f"{value:.0e}" if isinstance(value, float) else str(value)

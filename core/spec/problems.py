"""What is wrong with a document, in words that a user can act on: where, what was given, what is wanted.

Pydantic puts the tag of a discriminated union into an error's location (``optimizer.apollo.rank``);
a user never typed that, so a path here names only what stands in her document.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_VALUE_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: ``path`` as the user would type it, and a message that carries the value given."""

    path: str
    message: str
    code: str


def problems_of(faults: Sequence[Any], document: Any, root: str = "") -> list[Problem]:
    """Pydantic's ``errors()`` with their paths in ``document``, below the prefix ``root``."""
    return [_problem(fault, document, root) for fault in faults]


def _problem(fault: Any, document: Any, root: str) -> Problem:
    steps = _steps_in(document, fault["loc"], missing=fault["type"] == "missing")
    if fault["type"] == "unknown_key":
        steps.append(fault["ctx"]["key"])
        return Problem(join_path(root, steps), fault["msg"], "unknown_parameter")
    if fault["type"] == "missing":
        return Problem(join_path(root, steps), "is required", "missing_required_parameter")
    message = f"{fault['msg'].removeprefix('Value error, ')} (got {shown(fault['input'])})"
    return Problem(join_path(root, steps), message, "invalid_value")


def _steps_in(document: Any, location: Sequence[str | int], *, missing: bool) -> list[str | int]:
    """``location`` without union tags: the steps that the document has, and a missing last one."""
    steps: list[str | int] = []
    here = document
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if _is_tag(here, step):
            continue
        if _holds(here, step):
            here = here[step]
        elif not (missing and last and isinstance(here, dict)):
            continue
        steps.append(step)
    return steps


def _is_tag(here: Any, step: str | int) -> bool:
    """Whether ``step`` is what tells a union's members apart, not a key of ``here``.

    ``{"type": "dpo", "dpo": {...}}`` of OpenAI's ``method`` names a key of its own by its ``type``.
    """
    if not isinstance(here, dict):
        return False
    return step == here.get("kind") or (step == here.get("type") and step not in here)


def _holds(here: Any, step: str | int) -> bool:
    if isinstance(here, list):
        return isinstance(step, int) and step < len(here)
    return isinstance(here, dict) and step in here


def join_path(root: str, steps: Sequence[str | int]) -> str:
    """``trainer`` and ``["stages", 0, "rank"]`` make ``trainer.stages[0].rank``."""
    path = root
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def shown(value: Any) -> str:
    """``value`` for a message, cut to a length that a terminal line can bear."""
    text = repr(value)
    if len(text) <= SHOWN_VALUE_CHARACTERS:
        return text
    return text[:SHOWN_VALUE_CHARACTERS] + "…"

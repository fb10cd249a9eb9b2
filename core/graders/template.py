"""Templates filled in: the values that ``{{ item.… }}`` and ``{{ sample.… }}`` stand for.

A string is put in as it is, anything else as JSON. What is not there is an error, never an empty string.
"""

import json
from typing import Any

from core.graders.verdict import Errors, GradingError
from core.spec.template import Reference, Template

LONGEST_TEXT = 2**22
SHOWN_PATH = 200


def render(template: Template, namespaces: dict[str, Any]) -> str:
    """The text. Raises GradingError for a value that is not there, and past LONGEST_TEXT characters."""
    pieces: list[str] = []
    room = LONGEST_TEXT
    for part in template:
        piece = part if isinstance(part, str) else _shown(value_of(part, namespaces))
        room -= len(piece)
        if room < 0:
            raise GradingError(
                Errors(
                    truncated_observation_error=True,
                    other_error_details=f"a template made more than {LONGEST_TEXT} characters",
                )
            )
        pieces.append(piece)
    return "".join(pieces)


def value_of(reference: Reference, namespaces: dict[str, Any]) -> Any:
    """What stands at ``reference``. Raises GradingError where nothing does."""
    value = namespaces[reference.root]
    for step in reference.steps:
        if isinstance(step, int):
            there = isinstance(value, list) and step < len(value)
        else:
            there = isinstance(value, dict) and step in value
        if not there:
            raise _nothing_at(reference)
        value = value[step]
    return value


def _nothing_at(reference: Reference) -> GradingError:
    json_wanted = reference.root == "sample" and reference.steps[0] == "output_json"
    return GradingError(
        Errors(
            invalid_variable_error=True,
            sample_parse_error=json_wanted,
            other_error_details=f"nothing stands at {str(reference)[:SHOWN_PATH]}",
        )
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""Why a row is refused, told by whoever knows it, before anybody asks where the row stands.

Refusal        one row cannot be used; the rows after it can
FileRefusal    the bytes end here; nothing after them can be read
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from core.data.report import Code, Place, Problem, pointer
from core.data.rows import ROLES

_HINTS = {
    "missing": "Add this field.",
    "extra_forbidden": "Remove this key, or correct its spelling.",
    "role_unknown": f"Give each message a role: {', '.join(ROLES)}.",
    "arguments": "Write the arguments as a string that holds a JSON object.",
    "content": "Write the content as a string.",
    "says_nothing": "Give the message content, a refusal or tool_calls.",
    "literal_error": "Use one of the values named.",
    "part_unknown": "Only text can be trained on; remove other parts.",
    "side": "Write it as a string or as a list of messages.",
}
# Errors about a key that stand at the object around it.
_AT_KEY = {"role_unknown": "role", "part_unknown": "type"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a row; `at` is a JSON pointer in it."""

    code: Code
    message: str
    hint: str
    at: str = ""

    def located(self, place: Place) -> Problem:
        """The fault as the report shows it."""
        return Problem(
            line=place.number,
            unit=place.unit,
            pointer=self.at,
            code=self.code,
            message=self.message,
            hint=self.hint,
        )


class Refusal(Exception):
    """A row that cannot be used."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(fault.message for fault in faults[:3]))
        self.faults = faults

    @classmethod
    def because(cls, code: Code, message: str, hint: str, at: str = "") -> Self:
        """Refuse for one reason."""
        return cls(Fault(code, message, hint, at))


class FileRefusal(Refusal):
    """A file that cannot be read, or not further than it was."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands in a row for a value that cannot be had; `refusal` is for whoever needs it."""

    refusal: Refusal


class RowError(Exception):
    """A line is not a row that can be trained on; `problems` says why and where."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems[:3]))
        self.problems = problems

    @classmethod
    def at(cls, place: Place, faults: Iterable[Fault]) -> "RowError":
        """The faults of the row at `place`."""
        return cls([fault.located(place) for fault in faults])


def faults_of(error: ValidationError, hints: Mapping[str, str]) -> list[Fault]:
    """What pydantic found wrong, by its path in the row; `hints` are for keys of the row itself."""
    return [_fault(d, hints) for d in error.errors(include_url=False, include_input=False)]


def _fault(details: ErrorDetails, hints: Mapping[str, str]) -> Fault:
    kind = details["type"]
    # Tags of unions stand in angle brackets; nobody typed them.
    path = [p for p in details["loc"] if not (isinstance(p, str) and p[:1] + p[-1:] == "<>")]
    if kind in _AT_KEY:
        path.append(_AT_KEY[kind])
    hint = _HINTS.get(kind, "Correct the value here.")
    if kind == "extra_forbidden" and len(path) == 1:
        hint = hints.get(str(path[0]), hint)
    return Fault("invalid_file_format", details["msg"], hint, pointer(path))

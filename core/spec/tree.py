"""The node from which every spec is made: frozen, strict, and unwilling to ignore a typo.

An unknown key is refused where it stands, with the keys that are known there and the closest guess.
Numbers must be numbers (``"8"`` is not 8, ``true`` is not 1) and finite.
"""

import difflib
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from core.spec.problems import Problem, problems_of


class SpecError(ValueError):
    """A document that is not the spec it claims to be; ``problems`` lists every fault with its path."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{p.path}: {p.message}" for p in problems))


class Spec(BaseModel):
    """One node of the spec tree."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, validate_default=True
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for key in data:
                if key not in cls.model_fields:
                    raise _unknown_key(str(key), list(cls.model_fields))
        return data

    @classmethod
    def parse(cls, document: Any, *, path: str = "") -> Self:
        """The spec in ``document`` (decoded JSON). Raises SpecError with paths below ``path``."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise SpecError(problems_of(error.errors(include_url=False), document, path)) from None


def _unknown_key(key: str, known: list[str]) -> PydanticCustomError:
    key = key.encode(errors="backslashreplace").decode()  # half a surrogate pair cannot be shown
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return PydanticCustomError(
        "unknown_key",
        "unknown key '{key}'; {hint}known here: {known}",
        {"key": key, "hint": hint, "known": ", ".join(known)},
    )

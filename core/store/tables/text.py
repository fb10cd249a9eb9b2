"""Text as Postgres can hold it: without NUL and without halves of surrogate pairs.

A request, a trainer's message and a quoted row of a user's file may all carry such characters. They
are replaced on their way into a statement, so that no text can make one fail; an id that holds one is
then simply not found.
"""

from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql.type_api import TypeEngine

REPLACEMENT = "\ufffd"
_UNSTORABLE = {0: REPLACEMENT, **dict.fromkeys(range(0xD800, 0xE000), REPLACEMENT)}


def storable(value: Any) -> Any:
    """``value`` (decoded JSON) with every character replaced that Postgres refuses."""
    match value:
        case str():
            return value.translate(_UNSTORABLE)
        case dict():
            return {storable(key): storable(item) for key, item in value.items()}
        case list() | tuple():
            return [storable(item) for item in value]
        case _:
            return value


class StoredText(TypeDecorator[str]):
    """A text column."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Called for every value on its way to the database."""
        return storable(value)  # type: ignore[no-any-return]


class StoredJson(TypeDecorator[Any]):
    """A jsonb column."""

    impl = JSONB
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:  # noqa: ARG002
        """Called for every value on its way to the database."""
        return storable(value)

    def coerce_compared_value(self, op: Any, value: Any) -> TypeEngine[Any]:
        """Whole documents are compared as documents, keys and indexes as jsonb does."""
        if isinstance(value, dict):
            return self
        return self.impl_instance.coerce_compared_value(op, value)

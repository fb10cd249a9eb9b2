"""What is in force while a block runs, in this thread alone: the way through a family's own forward."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_force(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give `variable` this value while the block runs, and what it was before afterwards."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)

"""What gradings by a library have in common: how one that is missing is told, and its errors."""

import importlib
from types import ModuleType


class MissingLibrary(Exception):
    """A library that a grader needs is not installed."""


def library(name: str) -> ModuleType:
    """The module ``name``. Raises MissingLibrary with the remedy."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibrary(f"{error}; install castalia[graders]") from error


def explained(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"

"""A python grader: source of a user's that defines ``grade(sample, item)``."""

import contextlib
import importlib
import re
import traceback
from types import CodeType
from typing import Any

FILENAME = "grader.py"
# Imported before forking where the source names them: trusted, and slow to import for every answer.
WARMED = ("numpy", "scipy", "sympy", "pandas", "rapidfuzz", "sklearn", "nltk", "rouge_score")
NO_GRADE = "the source defines no function grade(sample, item)"
_IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+([a-z_]+)", re.MULTILINE)


class Source:
    """The job: settings ``source``; payload ``sample`` and ``item``, or ``only_define``."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.source: str = settings["source"]

    def prepare(self) -> None:
        """Import the libraries that the source seems to want; the source itself is not run here."""
        for name in WARMED:
            if name in _IMPORTED.findall(self.source):
                with contextlib.suppress(ImportError):  # told when the source imports it
                    importlib.import_module(name)

    def run(self, payload: dict[str, Any]) -> Any:
        """What ``grade`` returns; with ``only_define``, 0 if there is a ``grade`` at all."""
        names: dict[str, Any] = {"__name__": "grader"}
        exec(self._compiled(), names)  # noqa: S102 - this is the room where it may be
        grade = names.get("grade")
        if not callable(grade):
            raise NameError(NO_GRADE)  # noqa: TRY004 - the name is what is wrong
        if payload.get("only_define"):
            return 0.0
        return grade(payload["sample"], payload["item"])

    def explain(self, error: BaseException) -> str:
        """The error, and the last line of the source that it came through."""
        line = next(
            (
                frame.lineno
                for frame in reversed(traceback.extract_tb(error.__traceback__))
                if frame.filename == FILENAME
            ),
            None,
        )
        where = "" if line is None else f" (line {line})"
        return f"{type(error).__name__}: {error}{where}"

    def _compiled(self) -> CodeType:
        return compile(self.source, FILENAME, "exec", dont_inherit=True)

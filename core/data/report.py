"""What a check of a data file says: problems with their place, and the whole in one line.

The one idea: a report is stored and shown as JSON, so nothing that the file's bytes could hold
(NUL, control characters, endless keys) may enter it unescaped; `shown` is the only way in.
"""

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, computed_field

Shape = Literal["chat", "prompt_completion"]
Code = Literal[
    "empty_file",
    "invalid_file_format",
    "invalid_json",
    "line_too_long",
    "no_trainable_tokens",
]

_SHOWN_CHARACTERS = 60


def shown(text: str) -> str:
    """`text` fit for a message: unprintable characters as backslash escapes, long ones cut."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def pointer(parts: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer (RFC 6901), e.g. `/messages/2/role`; "" is the row."""
    return "".join("/" + shown(str(p)).replace("~", "~0").replace("/", "~1") for p in parts)


class Problem(BaseModel):
    """One fault in a file.

    `line` is the physical line from 1 (0: the file as a whole), `pointer` the place in the row.
    """

    model_config = ConfigDict(frozen=True)

    line: int
    pointer: str
    code: Code
    message: str
    hint: str

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "file"
        where = f"{place} {self.pointer}" if self.pointer else place
        return f"{where}: {self.message} ({self.code}). {self.hint}"


class Report(BaseModel):
    """The result of checking one file; `problem_count` also counts those not listed."""

    model_config = ConfigDict(frozen=True)

    rows: int
    shape: Shape | None
    problems: tuple[Problem, ...]
    problem_count: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether the file can be trained on."""
        return self.problem_count == 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def summary(self) -> str:
        """The report in one line."""
        rows = f"{self.rows} row{'' if self.rows == 1 else 's'}"
        if not self.problem_count:
            return f"{rows}, no problems"
        count = f"{self.problem_count} problem{'' if self.problem_count == 1 else 's'}"
        return f"{rows}, {count}; first: {self.problems[0]}"

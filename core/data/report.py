"""What a check of a data file says: problems with their place, and the whole in one line.

The one idea: a report is stored and shown as JSON, so nothing that the file's bytes could hold
(NUL, control characters, endless keys) may enter it unescaped; `shown` is the only way in.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, computed_field

Shape = Literal[
    "chat",
    "prompt_completion",
    "alpaca",
    "sharegpt",
    "text",
    "preference",
    "chosen_rejected",
    "rft",
    "tokens",
]
Code = Literal[
    "damaged_container",
    "duplicate_key",
    "duplicate_row",
    "duplicates_not_tracked",
    "empty_file",
    "file_too_large",
    "ignored_columns",
    "invalid_encoding",
    "invalid_file_format",
    "invalid_json",
    "line_too_long",
    "no_preference",
    "no_trainable_tokens",
    "unsupported_container",
]
Unit = Literal["line", "row"]
"""A text file has lines, a Parquet file rows; both are numbered from 1."""

_SHOWN_CHARACTERS = 60


def shown(text: str) -> str:
    """`text` fit for a message: unprintable characters as backslash escapes, long ones cut."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def pointer(parts: Iterable[str | int]) -> str:
    """Return a path as a JSON pointer (RFC 6901), e.g. `/messages/2/role`; "" is the row."""
    return "".join("/" + shown(str(p)).replace("~", "~0").replace("/", "~1") for p in parts)


class Place(NamedTuple):
    """Where a row stands: the physical line of a text file or the row of a Parquet file, from 1.

    0 is the file as a whole.
    """

    number: int
    unit: Unit = "line"

    def __str__(self) -> str:
        return f"{self.unit} {self.number}" if self.number else "file"


class Problem(BaseModel):
    """One fault in a file, or something in it that is worth a look.

    `line` is the number of its line, or of its row if `unit` says so (0: the file as a whole);
    `pointer` is the place in the row.
    """

    model_config = ConfigDict(frozen=True)

    line: int
    unit: Unit = "line"
    pointer: str
    code: Code
    message: str
    hint: str

    def __str__(self) -> str:
        place = str(Place(self.line, self.unit))
        where = f"{place} {self.pointer}" if self.pointer else place
        return f"{where}: {self.message} ({self.code}). {self.hint}"


class Report(BaseModel):
    """The result of checking one file; `problem_count` also counts those not listed.

    `shape` is that of the first row that has one, `shapes` counts the rows of each. `warnings` keep
    no file from being trained on; among them are the first of the `duplicate_count` rows that
    stand in the file already. `ignored` counts the rows of each column that is not read.
    """

    model_config = ConfigDict(frozen=True)

    rows: int
    shape: Shape | None
    shapes: dict[Shape, int] = {}
    problems: tuple[Problem, ...]
    problem_count: int
    warnings: tuple[Problem, ...] = ()
    duplicate_count: int = 0
    ignored: dict[str, int] = {}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ok(self) -> bool:
        """Whether the file can be trained on."""
        return self.problem_count == 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def summary(self) -> str:
        """The report in one line."""
        rows = _counted(self.rows, "row")
        if self.problem_count:
            problems = _counted(self.problem_count, "problem")
            return f"{rows}, {problems}; first: {self.problems[0]}"
        return f"{rows}, no problems"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

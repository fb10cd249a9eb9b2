"""Check a whole file before anything is trained on it.

The one idea: every line is read, and the report says what is wrong, where, and how to mend it, so
that one look mends a file. The list of problems is bounded; their number is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from core.data.lines import MAX_LINE_BYTES, Line, numbered_lines
from core.data.parse import RowError, parse_line
from core.data.report import Problem, Report, Shape


@dataclass(slots=True)
class _Tally:
    """What is known so far about a file."""

    max_problems: int
    rows: int = 0
    problem_count: int = 0
    problems: list[Problem] = field(default_factory=list)
    shape: Shape | None = None
    shape_line: int = 0

    def note(self, problems: list[Problem]) -> None:
        room = self.max_problems - len(self.problems)
        self.problems += problems[:room]
        self.problem_count += len(problems)

    def see(self, line: Line) -> None:
        self.rows += 1
        try:
            row = parse_line(line)
        except RowError as error:
            self.note(error.problems)
            return
        if self.shape is None:
            self.shape, self.shape_line = row.shape, row.line
        elif row.shape != self.shape:
            self.note([_mixed(row.line, row.shape, self.shape, self.shape_line)])


def check_rows(
    chunks: Iterable[bytes], *, max_problems: int = 100, max_line_bytes: int = MAX_LINE_BYTES
) -> Report:
    """Check every line of a file of rows for supervised training.

    `chunks` is the file's bytes, cut anywhere. The report lists the first `max_problems` (at
    least one) problems and counts all. No bytes make it raise; only `chunks` itself can.
    """
    tally = _Tally(max(1, max_problems))
    for line in numbered_lines(chunks, max_line_bytes=max_line_bytes):
        tally.see(line)
    if tally.rows == 0:
        tally.note([_empty()])
    return Report(
        rows=tally.rows,
        shape=tally.shape,
        problems=tuple(tally.problems),
        problem_count=tally.problem_count,
    )


def _empty() -> Problem:
    return Problem(
        line=0,
        pointer="",
        code="empty_file",
        message="the file holds no rows",
        hint="Upload a file with one JSON object a line.",
    )


def _mixed(line: int, shape: Shape, first: Shape, first_line: int) -> Problem:
    return Problem(
        line=line,
        pointer="",
        code="invalid_file_format",
        message=f"a {shape} row in a file that began with {first} rows at line {first_line}",
        hint="Keep one shape of row in a file.",
    )

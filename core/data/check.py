"""Check a whole file before anything is trained on it.

The one idea: every line is read, and the report says what is wrong, where, and how to mend it, so
that one look mends a file. The list of problems is bounded; their number is not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.data.duplicates import Repeats
from core.data.fault import Fault, FileRefusal, RowError
from core.data.lines import MAX_LINE_BYTES
from core.data.parse import RowReader
from core.data.records import MAX_TOTAL_BYTES, Record, records
from core.data.report import Place, Problem, Report, Shape

SHOWN_COLUMNS = 10
_EMPTY = Fault("empty_file", "the file holds no rows", "Upload a file with one JSON object a line.")


@dataclass(slots=True)
class _Tally:
    """What is known so far about a file."""

    max_problems: int
    rows: int = 0
    problem_count: int = 0
    problems: list[Problem] = field(default_factory=list)
    reader: RowReader = field(default_factory=RowReader)
    shapes: dict[Shape, int] = field(default_factory=dict)
    repeats: Repeats = field(default_factory=Repeats)

    def note(self, problems: list[Problem]) -> None:
        room = self.max_problems - len(self.problems)
        self.problems += problems[:room]
        self.problem_count += len(problems)

    def see(self, record: Record) -> None:
        self.rows += 1
        try:
            shape, read = self.reader.look(record)
        except RowError as error:
            self.note(error.problems)
            return
        self.shapes[shape] = self.shapes.get(shape, 0) + 1
        self.repeats.see(read, record.place)

    def report(self) -> Report:
        return Report(
            rows=self.rows,
            shape=self.reader.shape,
            shapes=self.shapes,
            problems=tuple(self.problems),
            problem_count=self.problem_count,
            warnings=(*ignored_columns(self.reader.ignored), *self.repeats.warnings),
            duplicate_count=self.repeats.count,
            ignored=self.reader.ignored,
        )


def ignored_columns(ignored: Mapping[str, int]) -> list[Problem]:
    """One note for all the columns that are not read, or none."""
    if not ignored:
        return []
    named = [f"{key} ({count})" for key, count in list(ignored.items())[:SHOWN_COLUMNS]]
    rest = len(ignored) - len(named)
    more = f" and {rest} more" if rest else ""
    message = f"not read, with the number of rows that have them: {', '.join(named)}{more}"
    hint = "Nothing need be done, unless one of them was meant to be learnt."
    return [Fault("ignored_columns", message, hint).located(Place(0))]


def check_rows(
    chunks: Iterable[bytes],
    *,
    max_problems: int = 100,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> Report:
    """Check every row of a file, of whatever shape and in whatever container.

    `chunks` is the file's bytes, cut anywhere. The report lists the first `max_problems` (at
    least one) problems and counts all. No bytes make it raise; only `chunks` itself can.
    """
    tally = _Tally(max(1, max_problems))
    try:
        for record in records(
            chunks, max_line_bytes=max_line_bytes, max_total_bytes=max_total_bytes
        ):
            tally.see(record)
    except FileRefusal as refusal:
        tally.note([fault.located(Place(0)) for fault in refusal.faults])
    if tally.rows == 0 and not tally.problem_count:
        tally.note([_EMPTY.located(Place(0))])
    return tally.report()

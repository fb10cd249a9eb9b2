"""One row of a file into one of the kinds that objectives learn from, or why it is none.

The one idea: the training loop and the check read rows through the same reader, so a file that
was reported clean cannot fail differently when it is trained on. The check leaves out to build rows
that are plainly right, which the reader would build.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from core.data.digests import RowDigests, digest_of
from core.data.fault import FileRefusal, Refusal, RowError, faults_of
from core.data.kinds import Kind
from core.data.lines import MAX_LINE_BYTES
from core.data.plain import PLAIN
from core.data.records import MAX_TOTAL_BYTES, Record, records
from core.data.report import Place, Shape, shown
from core.data.shapes.chat import (
    parse_alpaca,
    parse_chat,
    parse_prompt_completion,
    parse_sharegpt,
)
from core.data.shapes.columns import Columns, columns_of
from core.data.shapes.detect import shape_of
from core.data.shapes.preference import parse_chosen_rejected, parse_preference
from core.data.shapes.prompt import parse_prompt
from core.data.shapes.text import parse_text
from core.data.shapes.tokens import parse_tokens

__all__ = ["ParsedRow", "RowError", "RowReader", "read_rows"]

MAX_IGNORED = 256
"""Names of ignored columns that are remembered."""

_PARSERS: Mapping[Shape, Callable[[dict[str, Any]], Kind]] = {
    "chat": parse_chat,
    "prompt_completion": parse_prompt_completion,
    "alpaca": parse_alpaca,
    "sharegpt": parse_sharegpt,
    "text": parse_text,
    "preference": parse_preference,
    "chosen_rejected": parse_chosen_rejected,
    "rft": parse_prompt,
    "tokens": parse_tokens,
}


@dataclass(frozen=True, slots=True)
class ParsedRow:
    """A row with the shape and the line (of a Parquet file: the row) that it came from."""

    line: int
    shape: Shape
    value: Kind


@dataclass(slots=True)
class RowReader:
    """Reads the rows of one file; its first row that has a shape gives the file's.

    `ignored` counts the rows of each column that was not read.
    """

    shape: Shape | None = None
    place: Place = field(default_factory=lambda: Place(0))
    ignored: dict[str, int] = field(default_factory=dict)

    def read(self, record: Record) -> tuple[ParsedRow, dict[str, Any]]:
        """The row of a record, and its keys less the ignored ones.

        Raises RowError with the problems in it, and nothing else.
        """
        return self._parsed(_loaded(record), record.place)

    def look(self, record: Record) -> tuple[Shape, dict[str, Any]]:
        """The shape of a row that can be read, and its keys less the ignored ones; raises as `read`."""
        values = _loaded(record)
        is_plain = PLAIN.get(self.shape)
        if self.shape is not None and is_plain is not None and is_plain(values):
            return self.shape, values
        row, read = self._parsed(values, record.place)
        return row.shape, read

    def _parsed(self, values: dict[str, Any], place: Place) -> tuple[ParsedRow, dict[str, Any]]:
        hints: Mapping[str, str] = {}
        try:
            shape = shape_of(values, self.shape, self.ignored)
            columns = columns_of(shape, values)
            hints = columns.hints
            kind = _PARSERS[shape](columns.read)
            self._note(shape, place)
        except Refusal as refusal:
            raise RowError.at(place, refusal.faults) from refusal
        except ValidationError as error:
            raise RowError.at(place, faults_of(error, hints)) from error
        self._count(columns)
        return ParsedRow(place.number, shape, kind), columns.read

    def _count(self, columns: Columns) -> None:
        for key in map(shown, columns.ignored):
            if key in self.ignored or len(self.ignored) < MAX_IGNORED:
                self.ignored[key] = self.ignored.get(key, 0) + 1

    def _note(self, shape: Shape, place: Place) -> None:
        if self.shape is None:
            self.shape, self.place = shape, place
        elif shape != self.shape:
            message = f"a {shape} row in a file that began with {self.shape} rows at {self.place}"
            hint = "Keep one shape of row in a file."
            if {shape, self.shape} == {"chat", "rft"}:
                hint += " End every row with the assistant to learn its answers, or none."
            raise Refusal.because("invalid_file_format", message, hint)


def _loaded(record: Record) -> dict[str, Any]:
    try:
        return record.load()
    except Refusal as refusal:
        raise RowError.at(record.place, refusal.faults) from refusal


def read_rows(
    chunks: Iterable[bytes],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
    digests: RowDigests | None = None,
) -> Iterator[ParsedRow]:
    """Yield the rows of a file; raises RowError at the first line that is not one.

    The digest of each row is added to `digests`.
    """
    reader = RowReader()
    try:
        for record in records(
            chunks, max_line_bytes=max_line_bytes, max_total_bytes=max_total_bytes
        ):
            row, values = reader.read(record)
            if digests is not None:
                digests.add(row.line, digest_of(values))
            yield row
    except FileRefusal as refusal:
        raise RowError.at(Place(0), refusal.faults) from refusal

"""Physical lines of a byte stream, numbered as an editor numbers them.

The one idea: a report is only worth something if its line numbers are the ones that the user's
editor shows. So blank lines are skipped but counted, and nothing but a newline ends a line. A
stream is read in whatever pieces it comes; memory is one line, and one line has a limit.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_LINE_BYTES = 64 * 1024 * 1024
UTF8_BOM = b"\xef\xbb\xbf"

_NEWLINES = re.compile(rb"\n*")


class Line(NamedTuple):
    """One line that is not blank.

    `number` counts physical lines from 1. `data` has no line ending and no byte-order mark. If
    `too_long`, the line went over the limit and `data` holds only its beginning.
    """

    number: int
    data: bytes
    too_long: bool = False


@dataclass(slots=True)
class _Pending:
    """The bytes of the line being read, never more than the limit."""

    limit: int
    held: bytearray = field(default_factory=bytearray)
    over: bool = False

    @property
    def empty(self) -> bool:
        return not self.held and not self.over

    def add(self, piece: bytes) -> None:
        room = self.limit - len(self.held)
        self.held += piece[:room]
        self.over = self.over or len(piece) > room

    def take(self, number: int) -> Line:
        line = _line(number, bytes(self.held), too_long=self.over)
        self.held.clear()
        self.over = False
        return line


def numbered_lines(
    chunks: Iterable[bytes], *, max_line_bytes: int = MAX_LINE_BYTES
) -> Iterator[Line]:
    """Yield the lines of a stream that hold more than white space.

    `chunks` may be cut anywhere, also inside a character or between CR and LF. A last line
    without a newline counts. A line longer than `max_line_bytes` is yielded once, cut off and
    marked `too_long`; what is left of it is read past and not kept.
    """
    pending = _Pending(max_line_bytes)
    number = 1
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            whole = pending.empty and end - start <= max_line_bytes
            if whole and end == start:
                # A few bytes of gzip may stand for millions of empty lines.
                start = _after_newlines(chunk, start)
                number += start - end
                continue
            if whole:
                line = _line(number, chunk[start:end])
            else:
                pending.add(chunk[start:end])
                line = pending.take(number)
            if not _blank(line):
                yield line
            number += 1
            start = end + 1
        pending.add(chunk[start:])
    if not _blank(last := pending.take(number)):
        yield last


def _after_newlines(chunk: bytes, start: int) -> int:
    run = _NEWLINES.match(chunk, start)
    assert run is not None
    return run.end()


def _line(number: int, data: bytes, *, too_long: bool = False) -> Line:
    if number == 1:
        data = data.removeprefix(UTF8_BOM)
    return Line(number, data.removesuffix(b"\r"), too_long)


def _blank(line: Line) -> bool:
    return not line.too_long and (not line.data or line.data.isspace())

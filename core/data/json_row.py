"""One line of JSON into one object.

The one idea: two readers, each for what it is strict in. pydantic's bounds nesting and the length of
integers and refuses NaN and lone surrogates; the standard library's shows keys that are given twice,
of which any reader would silently keep one, and numbers that are too large for a float. It is several
times slower, and so is asked only where `_all_kept` does not prove that nothing was lost.
"""

import json
import math
from typing import Any

from pydantic_core import from_json, to_json

from core.data.fault import Refusal
from core.data.lines import Line
from core.data.report import pointer, shown
from core.data.shapes.detect import EXPECTED

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_FORM = "Write one JSON object a line, in UTF-8."


def json_row(line: Line) -> dict[str, Any]:
    """The object on a line. Raises Refusal."""
    if line.too_long:
        message = f"line is longer than {len(line.data)} bytes"
        raise Refusal.because("line_too_long", message, "Split the row, or shorten it.")
    try:
        value = from_json(line.data, allow_inf_nan=False)
    except ValueError as error:
        raise _not_json(line.data, str(error)) from error
    if not isinstance(value, dict):
        message = f"a row is a JSON object, this is a {_json_type(value)}"
        raise Refusal.because("invalid_file_format", message, EXPECTED)
    if not _all_kept(line.data, value):
        _refuse_what_was_lost(line.data)
    return value


def _not_json(data: bytes, parser: str) -> Refusal:
    if data.startswith(_UTF16):
        hint = "The file is UTF-16; save it as UTF-8."
        return Refusal.because("invalid_encoding", "not UTF-8", hint)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        message = f"not UTF-8 at byte {error.start + 1} of the line"
        return Refusal.because("invalid_encoding", message, "Save the file as UTF-8.")
    hint = _FORM
    if data.startswith(b"["):
        hint += " A list over lines is no row."
    if b"\r" in data:
        hint += " End lines with a newline, not with a carriage return alone."
    # The parser sees one line at a time, so its own line number is always 1.
    message = "not JSON: " + parser.replace(" at line 1 column ", " at column ")
    return Refusal.because("invalid_json", message, hint)


def _json_type(value: object) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")


def _all_kept(data: bytes, value: dict[str, Any]) -> bool:
    r"""Whether `value` surely is all that `data` says; False where that takes a closer look.

    Of two equal keys one is lost, and with it two quotation marks. Written again, a string has as many
    marks as before: two around it and one for each that it holds, unless that was given as \u0022.
    """
    written = to_json(value)
    return (
        data.count(b'"') == written.count(b'"')
        and b"\\u0022" not in data
        and b"Infinity" not in written
    )


def _finite(number: str) -> str:
    # Of the first reader this is an infinity, though nobody wrote one.
    if math.isinf(float(number)):
        hint = "Write a number below 1e308, or a string."
        raise Refusal.because("invalid_json", f"the number {shown(number)} is too large", hint)
    return number


class _Doubled:
    """Stands where an object gives a key twice."""

    def __init__(self, key: str) -> None:
        self.key = key


def _refuse_what_was_lost(data: bytes) -> None:
    seen = False

    def once(pairs: list[tuple[str, Any]]) -> object:
        nonlocal seen
        made = dict(pairs)
        if len(made) == len(pairs):
            return made
        seen = True
        keys = [key for key, _ in pairs]
        return _Doubled(next(key for n, key in enumerate(keys) if key in keys[:n]))

    # Integers stay text: huge ones would take long to convert.
    value = json.loads(data, object_pairs_hook=once, parse_int=str, parse_float=_finite)
    if seen:
        path = _path_to_double(value) or []
        message = (
            f"the key '{shown(str(path[-1]))}' is given twice" if path else "a key is given twice"
        )
        raise Refusal.because("duplicate_key", message, "Keep one of the two.", pointer(path))


def _path_to_double(value: object) -> list[str | int] | None:
    if isinstance(value, _Doubled):
        return [value.key]
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, item in inner:
        if (found := _path_to_double(item)) is not None:
            return [key, *found]
    return None

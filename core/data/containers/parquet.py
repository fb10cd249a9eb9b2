"""Parquet: its rows as the same dictionaries that lines of JSON give.

The one idea: a column must be of a type that JSON has, and an absent value is an absent key. A column
that no shape reads may be of another; it is refused only where a row's own keys are all read. The index
of a Parquet file stands at its end, so the bytes are spooled to a temporary file; it is read a small
batch of rows at a time.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from core.data.fault import Fault, FileRefusal, Refusal, Unread
from core.data.report import pointer, shown
from core.data.shapes.columns import OWN_KEYS

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_BYTES = 8 * 2**20
BATCH_ROWS = 64
MAX_DEPTH = 32
_HINT = "Write the file again, and upload the whole of it."


def parquet_rows(
    chunks: Iterable[bytes], *, max_row_bytes: int, max_total_bytes: int
) -> Iterator[Callable[[], dict[str, Any]]]:
    """Yield what gives each row, or raises Refusal if it cannot be had.

    Raises FileRefusal if the file is damaged, encrypted, larger than `max_total_bytes` (as it is, or
    decompressed by its own account), or has a column of a shape that JSON could not hold.
    """
    with TemporaryFile() as file:
        _spool(chunks, file, max_total_bytes)
        table = _opened(file)
        size = sum(table.metadata.row_group(n).total_byte_size for n in range(table.num_row_groups))
        if size > max_total_bytes:
            raise _too_large(max_total_bytes)
        unread = _unread_columns(table.schema_arrow)
        names = [name for name in table.schema_arrow.names if name not in unread]
        row_bytes = max(size // max(table.metadata.num_rows, 1), 1)
        rows = min(max(BATCH_BYTES // row_bytes, 1), BATCH_ROWS)
        for batch in _batches(table, rows, names if unread else None):
            for number in range(batch.num_rows):
                yield partial(_row, batch, number, max_row_bytes, unread)


def _spool(chunks: Iterable[bytes], file: IO[bytes], limit: int) -> None:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > limit:
            raise _too_large(limit)
        file.write(chunk)
    file.seek(0)


def _opened(file: IO[bytes]) -> "pq.ParquetFile":
    # numpy comes with it; most workers never meet a Parquet file.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=2**20)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(error) from error


def _batches(
    table: "pq.ParquetFile", rows: int, names: list[str] | None
) -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa  # noqa: PLC0415 - as above

    batches = table.iter_batches(batch_size=rows, columns=names, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damaged(error) from error
        if batch is None:
            return
        yield batch


def _row(
    batch: "pa.RecordBatch", number: int, max_bytes: int, unread: Mapping[str, Unread]
) -> dict[str, Any]:
    row = batch.slice(number, 1)
    if batch.nbytes > max_bytes and row.nbytes > max_bytes:
        message = f"row is longer than {max_bytes} bytes"
        raise Refusal.because("line_too_long", message, "Split the row, or shorten it.")
    try:
        (values,) = row.to_pylist()
    except UnicodeDecodeError as error:
        hint = "Write strings as UTF-8."
        raise Refusal.because("invalid_encoding", "a string is not UTF-8", hint) from error
    read = {key: _column(key, value) for key, value in values.items() if value is not None}
    return {**read, **unread}


def _column(key: str, value: Any) -> Any:
    try:
        return _plain(value, [key])
    except Refusal as refusal:
        if key in OWN_KEYS:
            raise
        return Unread(refusal)


def _plain(value: Any, path: list[str | int]) -> Any:
    """`value` without the keys that are null; raises Refusal at a number that is none."""
    if isinstance(value, dict):
        return {k: _plain(v, [*path, k]) for k, v in value.items() if v is not None}
    if isinstance(value, list) and any(isinstance(v, (dict, list, float)) for v in value):
        return [_plain(v, [*path, n]) for n, v in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        hint = "Write a finite number."
        raise Refusal.because("invalid_file_format", f"{value} is no number", hint, pointer(path))
    return value


def _unread_columns(schema: "pa.Schema") -> dict[str, Unread]:
    """Columns that JSON could not hold; raises FileRefusal where a shape reads one of that name."""
    doubled = next((name for n, name in enumerate(schema.names) if name in schema.names[:n]), None)
    if doubled is not None:
        message = f"the column '{shown(doubled)}' is there twice"
        raise FileRefusal.because(
            "duplicate_key", message, "Keep one of the two.", pointer([doubled])
        )
    unread = {}
    for field in schema:
        if not _is_json(field.type, 0):
            message = f"the column is of type {shown(str(field.type))}"
            hint = "Use strings, numbers, booleans, lists and structs."
            fault = Fault("invalid_file_format", message, hint, pointer([field.name]))
            if field.name in OWN_KEYS:
                raise FileRefusal(fault)
            unread[field.name] = Unread(Refusal(fault))
    return unread


def _is_json(kind: "pa.DataType", depth: int) -> bool:
    from pyarrow import types as t  # noqa: PLC0415 - as above

    if depth > MAX_DEPTH:
        return False
    if t.is_struct(kind):
        return all(_is_json(kind.field(n).type, depth + 1) for n in range(kind.num_fields))
    if (
        t.is_list(kind)
        or t.is_large_list(kind)
        or t.is_fixed_size_list(kind)
        or t.is_dictionary(kind)
    ):
        return _is_json(kind.value_type, depth + 1)
    return any(
        test(kind)
        for test in (
            t.is_string,
            t.is_large_string,
            t.is_integer,
            t.is_floating,
            t.is_boolean,
            t.is_null,
        )
    )


def _damaged(error: BaseException) -> FileRefusal:
    message = f"the Parquet file cannot be read: {shown(str(error))}"
    return FileRefusal.because("damaged_container", message, _HINT)


def _too_large(limit: int) -> FileRefusal:
    message = f"the file holds more than {limit} bytes"
    return FileRefusal.because("file_too_large", message, "Split the file.")

"""The rows of a file as they stand in it, whatever holds them.

The one idea: bytes go through at most one container (gzip, zstd or Parquet), told by its first
bytes and never by a name, and come out as records that are read one by one; memory is one line, or
one batch of a Parquet file, and what comes out is bounded as what goes in is.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from core.data.containers.gzipped import gunzipped
from core.data.containers.parquet import parquet_rows
from core.data.containers.sniff import container_of, peeked, refuse_nested
from core.data.containers.zstd import unzstd
from core.data.fault import FileRefusal
from core.data.json_row import json_row
from core.data.lines import MAX_LINE_BYTES, numbered_lines
from core.data.report import Place

MAX_TOTAL_BYTES = 16 * 2**30


class Record(NamedTuple):
    """One row of a file; `load` gives its keys and values, or raises Refusal."""

    place: Place
    load: Callable[[], dict[str, Any]]


def records(
    chunks: Iterable[bytes],
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> Iterator[Record]:
    """Yield the rows of a file; `chunks` is its bytes, cut anywhere.

    Lines (rows of a Parquet file) above `max_line_bytes` refuse to load; above `max_total_bytes`,
    decompressed, the file ends in a FileRefusal, as one does that cannot be read further.
    """
    head, whole = peeked(chunks)
    match container_of(head):
        case "parquet":
            rows = parquet_rows(
                whole, max_row_bytes=max_line_bytes, max_total_bytes=max_total_bytes
            )
            for number, load in enumerate(rows, 1):
                yield Record(Place(number, "row"), load)
            return
        case "gzip":
            text = _unnested("gzip", gunzipped(whole))
        case "zstd":
            text = _unnested("zstd", unzstd(whole))
        case "plain":
            text = whole
    for line in numbered_lines(_within(text, max_total_bytes), max_line_bytes=max_line_bytes):
        yield Record(Place(line.number), partial(json_row, line))


def _unnested(outer: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    head, whole = peeked(chunks)
    refuse_nested(outer, head)
    yield from whole


def _within(chunks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > limit:
            message = f"the file holds more than {limit} bytes of text"
            raise FileRefusal.because("file_too_large", message, "Split the file.")
        yield chunk

"""What a file is, told by its first bytes.

The magic numbers are those of RFC 1952 (gzip), RFC 8878 (zstd and its skippable frames), the Parquet
format's specification, and of what people upload by mistake.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from core.data.fault import FileRefusal

Container = Literal["plain", "gzip", "zstd", "parquet"]

HEAD_BYTES = 8
_HINT = "Upload lines of JSON, plain or compressed with gzip or zstd, or a Parquet file."
_FOREIGN = {
    b"PARE": "a Parquet file with an encrypted footer",
    b"PK\x03\x04": "a zip archive (or a spreadsheet)",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ\x00": "compressed with xz",
    b"7z\xbc\xaf": "a 7z archive",
    b"ARROW1": "an Arrow file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"SQLite": "an SQLite database",
    b"%PDF": "a PDF document",
}
_WIDE = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"{\x00\x00\x00": "UTF-32",
    b"\x00\x00\x00{": "UTF-32",
    b"{\x00": "UTF-16",
    b"\x00{": "UTF-16",
}


def peeked(chunks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes (fewer where there are no more), and all of them again."""
    source = iter(chunks)
    head = b""
    for chunk in source:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    return head[:HEAD_BYTES], chain([head], source)


def container_of(head: bytes) -> Container:
    """What a file is that begins with `head`. Raises FileRefusal for what cannot be read."""
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith(b"\x28\xb5\x2f\xfd") or _skippable(head):
        return "zstd"
    if head.startswith(b"PAR1"):
        return "parquet"
    for magic, words in _FOREIGN.items():
        if head.startswith(magic):
            raise FileRefusal.because("unsupported_container", f"the file is {words}", _HINT)
    for magic, encoding in _WIDE.items():
        if head.startswith(magic):
            hint = f"The file is {encoding}; save it as UTF-8."
            raise FileRefusal.because("invalid_encoding", "the file is not UTF-8", hint)
    return "plain"


def refuse_nested(outer: str, head: bytes) -> None:
    """Raise FileRefusal if what came out of `outer` is a container again."""
    inner = container_of(head)
    if inner != "plain":
        message = f"there is {inner} inside {outer}"
        hint = f"Upload what was compressed with {outer} as it is."
        raise FileRefusal.because("unsupported_container", message, hint)


def _skippable(head: bytes) -> bool:
    return head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50  # noqa: PLR2004

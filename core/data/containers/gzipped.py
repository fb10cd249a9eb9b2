"""gzip, streamed: never more than a piece of its output at a time, however well it was compressed."""

import zlib
from collections.abc import Iterable, Iterator

from core.data.fault import FileRefusal

PIECE_BYTES = 2**20
_GZIP_HEADER = 31
_HINT = "Compress the file again, and upload the whole of it."


def gunzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what was compressed, all members after one another, in pieces of at most PIECE_BYTES.

    Zeros after the last member are padding. Raises FileRefusal where the stream is cut or damaged.
    """
    member = zlib.decompressobj(_GZIP_HEADER)
    begun = False
    for chunk in chunks:
        rest = chunk
        while rest:
            if not begun:
                rest = rest.lstrip(b"\0")
                begun = bool(rest)
                continue
            piece, rest = _step(member, rest)
            if piece:
                yield piece
            if member.eof:
                member, begun = zlib.decompressobj(_GZIP_HEADER), False
    if begun:
        raise FileRefusal.because("damaged_container", "the gzip stream ends too early", _HINT)


def _step(member: "zlib._Decompress", data: bytes) -> tuple[bytes, bytes]:
    """One piece out of `data`, and what of `data` is left."""
    try:
        piece = member.decompress(data, PIECE_BYTES)
    except zlib.error as error:
        message = f"the gzip stream is damaged: {error}"
        raise FileRefusal.because("damaged_container", message, _HINT) from error
    return piece, member.unused_data if member.eof else member.unconsumed_tail

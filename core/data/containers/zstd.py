"""zstd, streamed: little goes in at a time, so that little can come out.

Four bytes of zstd may stand for 128 KiB (RFC 8878, 3.1.1.2: a block that repeats one byte), so
STEP_BYTES of input give at most 32 MiB; a window, which is memory too, may be 128 MiB, as in the
zstd command.
"""

from collections.abc import Iterable, Iterator

import zstandard

from core.data.fault import FileRefusal

STEP_BYTES = 1024
MAX_WINDOW_BYTES = 2**27
_HINT = "Compress the file again, and upload the whole of it."


def unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield what was compressed, all frames after one another.

    Raises FileRefusal where the stream is cut or damaged.
    """
    frames = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    frame = frames.decompressobj()
    begun = False
    for step in _steps(chunks):
        rest = step
        while rest:
            piece = _decompressed(frame, rest)
            begun = True
            if piece:
                yield piece
            rest = b""
            if frame.eof:
                rest = frame.unused_data
                frame, begun = frames.decompressobj(), False
    if begun:
        raise FileRefusal.because("damaged_container", "the zstd stream ends too early", _HINT)


def _steps(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), STEP_BYTES):
            yield chunk[start : start + STEP_BYTES]


def _decompressed(frame: "zstandard.ZstdDecompressionObj", data: bytes) -> bytes:
    try:
        return frame.decompress(data)
    except zstandard.ZstdError as error:
        message = f"the zstd stream is damaged: {error}"
        raise FileRefusal.because("damaged_container", message, _HINT) from error

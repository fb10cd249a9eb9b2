"""Bytes on their way out: a piece is fetched while the one before it is sent."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from starlette.concurrency import run_in_threadpool


async def read_ahead(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same pieces, two of them in memory at a time; no thread waits for a slow reader."""
    coming = _fetched(pieces)
    try:
        while (piece := await coming) is not None:
            coming = _fetched(pieces)
            yield piece
    finally:
        # A reader that hung up: the piece that is on its way comes, and is dropped.
        coming.cancel()


def _fetched(pieces: Iterator[bytes]) -> "asyncio.Future[bytes | None]":
    return asyncio.ensure_future(run_in_threadpool(next, pieces, None))

"""Bytes on their way out are the same bytes, one piece ahead of whoever reads them."""

import asyncio
import threading

import pytest

from api.outgoing import read_ahead


def pieces_of(count, fetched, broken=None):
    for number in range(count):
        if number == broken:
            raise OSError("gone")
        fetched.append(number)
        yield bytes([number])


def test_all_pieces_come_in_their_order():
    async def read():
        return [piece async for piece in read_ahead(pieces_of(5, []))]

    assert asyncio.run(read()) == [bytes([number]) for number in range(5)]


def test_the_next_piece_is_fetched_while_one_is_sent_and_no_more():
    fetched, second = [], threading.Event()

    def pieces():
        yield from pieces_of(1, fetched)
        second.set()
        yield from pieces_of(3, fetched)

    async def read():
        stream = read_ahead(pieces())
        await anext(stream)
        was_fetched = await asyncio.to_thread(second.wait, 60)
        await stream.aclose()
        return was_fetched

    assert asyncio.run(read())
    assert len(fetched) <= 2


def test_a_store_that_breaks_ends_the_stream_with_its_error():
    async def read():
        return [piece async for piece in read_ahead(pieces_of(5, [], broken=2))]

    with pytest.raises(OSError, match="gone"):
        asyncio.run(read())

"""Rows come back from their entry as they were, and from nothing else."""

import pytest

from core.data.branches import Answer
from core.data.digests import RowDigests
from core.data.encoded import Encoded
from core.data.lengths import Lengths
from core.data.overlength import LengthReport
from core.data.pack import Packed
from core.data.pair import EncodedPair
from core.data.prompts import EncodedPrompt
from core.train.cache.entry import BrokenEntryError, opened, sealed
from core.train.lessons import FileRows, Rows

ROW = Encoded([5, 2**31, 7], [False, True, False], 3)
OTHER = Encoded([1, 2], [False, True], 4)
PAIR = EncodedPair([5, 6], Answer([7], [True]), Answer([8, 9, 0], [True, False, True]), 2)
ROWS = {
    "encoded": [ROW, OTHER],
    "packed": [Packed((ROW, OTHER)), Packed((OTHER,))],
    "pair": [PAIR, EncodedPair([1], Answer([2], [True]), Answer([3], [True]), 9)],
    "prompt": [
        EncodedPrompt([4, 5], 96, {"answer": "é\u2028", "n": [1.5, None, {"x": 10**30}]}, 1),
        EncodedPrompt([], 96, {}, 2),
    ],
}


def file_rows(rows):
    lengths, digests = Lengths(), RowDigests()
    for line in (3, 2**40):
        lengths.add(line)
        digests.add(line, bytes(range(16)))
    return FileRows(Rows(rows, LengthReport(kept=2, dropped=1, longest=3), lengths), digests)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_every_kind_of_row_comes_back_equal(rows):
    found = file_rows(rows)
    back = opened("key", sealed("key", found))
    assert back.cached
    assert back.read == found.read
    assert back.digests == found.digests


def test_no_byte_can_change_or_be_missing():
    entry = sealed("key", file_rows(ROWS["pair"]))
    for place in range(0, len(entry), 7):
        changed = bytearray(entry)
        changed[place] ^= 1
        for broken in (bytes(changed), entry[:place]):
            with pytest.raises(BrokenEntryError):
                opened("key", broken)


def test_an_entry_of_another_key_is_refused():
    with pytest.raises(BrokenEntryError):
        opened("other", sealed("key", file_rows(ROWS["encoded"])))

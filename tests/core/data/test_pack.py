"""Packing: every row once, whole, within the capacity, with few places left empty."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.encoded import Encoded
from core.data.pack import pack


def row(length, line):
    return Encoded([line] * length, [False, *[True] * (length - 1)], line)


lengths_within_20 = st.lists(st.integers(1, 20), min_size=1, max_size=60)


@given(lengths_within_20)
def test_every_row_stands_once_and_whole_within_the_capacity(lengths):
    rows = [row(length, line) for line, length in enumerate(lengths, 1)]
    packed = pack(rows, 20)
    assert sorted(line for one in packed for line in one.lines) == [r.line for r in rows]
    for one in packed:
        assert len(one) == sum(one.documents) <= 20
        assert one.lines == sorted(one.lines)
        start = 0
        for line, length in zip(one.lines, one.documents, strict=True):
            assert one.input_ids[start : start + length] == rows[line - 1].input_ids
            assert one.trained[start : start + length] == rows[line - 1].trained
            start += length


@given(lengths_within_20)
def test_no_two_packed_rows_would_fit_in_one(lengths):
    packed = pack([row(length, line) for line, length in enumerate(lengths, 1)], 20)
    smallest = sorted(map(len, packed))[:2]
    assert len(packed) == 1 or sum(smallest) > 20


def test_which_tokens_are_targets_does_not_change():
    """Case 3: the supervised count is the same, packed or not, and no border is crossed."""
    rows = [Encoded([1, 2, 3], [False, False, True], 1), Encoded([4, 5], [False, True], 2)]
    (packed,) = pack(rows, 8)
    assert packed.targets == sum(r.targets for r in rows)
    assert packed.trained == [False, False, True, False, True]


def test_the_same_rows_are_packed_the_same_way_and_in_the_order_of_the_file():
    rows = [row(length, line) for line, length in enumerate([7, 3, 9, 9, 2, 8, 1], 1)]
    assert pack(rows, 10) == pack(rows, 10)
    firsts = [one.lines[0] for one in pack(rows, 10)]
    assert firsts == sorted(firsts)


def test_a_row_beyond_the_capacity_is_refused():
    with pytest.raises(ValueError, match="a row has 11 tokens, more than the capacity of 10"):
        pack([row(11, 1)], 10)

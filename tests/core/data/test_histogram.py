"""Lengths are counted in buckets that double, and what cannot be trained by its lines."""

import pytest

from core.data.encoded import Encoded
from core.data.histogram import FIRST_LINES, Histogram
from core.data.lengths import Bucket
from core.data.sides import Side


def side(length, targets, name="row"):
    return Side(name, Encoded([0] * length, [t >= length - targets for t in range(length)]))


@pytest.fixture
def count():
    def do(*lengths, context=None):
        found = Histogram(context)
        for line, length in enumerate(lengths, 1):
            found.add(line, [side(length, 1)])
        return found

    return do


def test_buckets_double_and_leave_none_out(count):
    assert count(2, 3, 4, 8, 15, 64).lengths.buckets() == [
        Bucket(2, 3, 2),
        Bucket(4, 7, 1),
        Bucket(8, 15, 2),
        Bucket(16, 31, 0),
        Bucket(32, 63, 0),
        Bucket(64, 127, 1),
    ]


def test_no_rows_make_no_buckets(count):
    assert count().lengths.buckets() == []


def test_sums_and_the_longest_are_told(count):
    found = count(2, 9, 9, 3)
    assert (found.rows, found.tokens, found.trained_tokens) == (4, 23, 4)
    assert (found.longest, found.longest_line) == (9, 2)


def test_rows_over_the_context_are_counted_and_the_first_named(count):
    found = count(*[8, 9] * 15, context=8)
    assert found.over_context.count == 15
    assert found.over_context.lines == list(range(2, 2 * FIRST_LINES + 1, 2))
    assert count(10**6).over_context.count == 0


def test_a_pair_counts_by_its_longer_side_and_needs_a_target_on_both():
    found = Histogram(10)
    found.add(1, [side(4, 1, "chosen"), side(12, 2, "rejected")])
    found.add(2, [side(4, 1, "chosen"), side(5, 0, "rejected")])
    assert (found.longest, found.tokens) == (12, 25)
    assert found.over_context.lines == [1]
    assert found.without_target.lines == [2]


def test_a_prompt_has_no_target_and_lacks_none():
    found = Histogram()
    found.add(1, [side(4, 0, "prompt")])
    assert found.without_target.count == 0

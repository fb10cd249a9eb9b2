"""Who takes which rows of a step."""

from hypothesis import given
from hypothesis import strategies as st

from core.ranks import shares

LENGTHS = st.lists(st.integers(1, 1000), max_size=40)


@given(LENGTHS, st.integers(1, 8))
def test_everything_is_taken_once_and_in_order(lengths, ranks):
    taken = shares(lengths, ranks)
    assert len(taken) == ranks
    assert sorted(index for one in taken for index in one) == list(range(len(lengths)))
    assert all(one == sorted(one) for one in taken)


@given(LENGTHS, st.integers(1, 8))
def test_no_rank_has_more_than_a_thing_more_than_another(lengths, ranks):
    loads = [sum(lengths[index] for index in one) for one in shares(lengths, ranks)]
    assert max(loads) - min(loads) <= max(lengths, default=0)


def test_one_rank_takes_all():
    assert shares([3, 1, 2], 1) == [[0, 1, 2]]

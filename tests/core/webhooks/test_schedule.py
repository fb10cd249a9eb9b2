"""An event is sent ten times within four days and a bit, never sooner than its receiver asked for."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from core.webhooks.schedule import MOST_TRIES, asked_wait_s, wait_s

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DAY = 86_400.0


def test_waits_grow_until_there_is_no_further_try():
    waits = [wait_s(tries, None, 0.0) for tries in range(1, MOST_TRIES + 1)]
    assert waits[0] == 5.0
    assert waits.pop() is None
    assert all(first < second for first, second in pairwise(waits))
    assert 3 * DAY < sum(waits) < 4 * DAY


def test_chance_draws_a_wait_out_and_never_shortens_it():
    assert wait_s(1, None, 0.5) == pytest.approx(5.5)
    assert wait_s(1, None, 1.0) == 6.0


def test_a_receiver_may_ask_for_longer_but_not_for_ever():
    assert wait_s(1, 60.0, 0.0) == 60.0
    assert wait_s(2, 60.0, 0.0) == 300.0
    assert wait_s(1, 1e9, 0.0) == DAY
    assert wait_s(MOST_TRIES, 60.0, 0.0) is None


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [
        (429, "7", 7.0),
        (503, "Mon, 30 Nov 2026 12:01:00 GMT", 60.0),
        (503, "Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        (503, "Mon, 30 Nov 2026 12:01:00 -0000", 60.0),
        (502, "9" * 400, float("inf")),
        (500, "7", None),
        (200, "7", None),
        (429, "soon", None),
        (429, "-1", None),
        (429, None, None),
    ],
)
def test_retry_after_is_read_in_both_forms_where_it_has_a_meaning(status, header, seconds):
    assert asked_wait_s(status, header, NOW) == seconds

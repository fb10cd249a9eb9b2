"""A call that hangs is left behind, whatever else happens to it later."""

from threading import Event

import pytest

from core.spec.errors import RunFailure
from worker.in_time import in_time

LIMIT_S = 60.0


def test_what_comes_in_time_is_given_and_what_is_raised_is_raised():
    assert in_time(lambda: 3, LIMIT_S) == 3
    assert in_time(lambda: None, LIMIT_S) is None
    with pytest.raises(ZeroDivisionError):
        in_time(lambda: 1 // 0, LIMIT_S)


def test_what_hangs_is_left_behind_with_a_reason():
    go_on = Event()
    with pytest.raises(RunFailure, match=r"took nothing for 0\.05 s") as failure:
        in_time(go_on.wait, 0.05)
    assert failure.value.error.code == "store_unavailable"
    go_on.set()

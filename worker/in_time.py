"""What may hang is done in a thread, which is left behind if it does: a call into a store cannot be ended."""

import threading
from collections.abc import Callable
from typing import TypeVar

from worker.keeper import LeaseKeeper
from worker.pen import patiently, store_unavailable

T = TypeVar("T")


def in_time(do: Callable[[], T], limit_s: float) -> T:
    """What ``do`` gives or raises, if it comes within so many seconds; else raises RunFailure.

    What is written later by a thread that was left behind is named by nobody, and swept.
    """
    given: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            given.append(do())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            raised.append(error)

    thread = threading.Thread(target=run, name="in-time", daemon=True)
    thread.start()
    thread.join(limit_s)
    if raised:
        raise raised[0]
    if not given:
        raise store_unavailable(f"it took nothing for {limit_s:g} s")
    return given[0]


def patiently_in_time(
    do: Callable[[], T], keeper: LeaseKeeper, trouble: str, *, limit_s: float
) -> T:
    """As `patiently`, of a store that refuses or hangs: for so many seconds in all."""
    return in_time(lambda: patiently(do, keeper, trouble, limit_s=limit_s), limit_s)

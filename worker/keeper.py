"""A thread that holds a lease while the rest of the worker is busy, and brings back the user's wishes.

A database that is away is no reason to let go: the janitor expires nothing before it has itself seen the
database up for a whole lease. Only a renewal that finds no row says that the job is somebody else's.
"""

import logging
import threading
from collections.abc import Callable
from typing import Self

from core.store.database import Database, DatabaseDown
from core.store.errors import LeaseLost
from core.store.leases import Lease, Wish, renew_lease

log = logging.getLogger(__name__)

RENEWALS_PER_LEASE = 4
LONGEST_PERIOD_S = 2.0
"""So that a wish is heard soon, however long the lease."""


class WishHeard(Exception):
    """The user wants the run to end, and it need not begin."""


class LeaseKeeper:
    """Renews until the ``with`` block ends. ``lost`` and ``wish`` tell what the renewals brought."""

    def __init__(self, database: Database, lease: Lease, lease_s: float) -> None:
        self._database = database
        self._lease = lease
        self._lease_s = lease_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._renew_until_end, daemon=True)
        self._tell: Callable[[], object] = lambda: None
        self.lost = False
        self.wish: Wish | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def check(self) -> None:
        """Raises LeaseLost if the job is somebody else's by now, or nobody keeps the lease any more."""
        if self.lost:
            raise LeaseLost(f"job {self._lease.job_id} was taken over")
        if self._end.is_set():
            raise LeaseLost(f"attempt {self._lease.attempt} at job {self._lease.job_id} is over")

    def heed(self) -> None:
        """Raises WishHeard if the user wants the run to end, and LeaseLost as `check` does."""
        self.check()
        if self.wish is not None:
            raise WishHeard(self.wish)

    def when_wished(self, tell: Callable[[], object]) -> None:
        """Call ``tell`` whenever a wish is found to stand, in the thread that finds it, and now if one does.

        So it does not matter what the thread that asked for it waits for meanwhile.
        """
        self._tell = tell
        self.hear(self.wish)

    def hear(self, wish: Wish | None) -> None:
        """What a renewal, or another write to the job's row, found the user to want."""
        self.wish = wish
        if wish is not None:
            self._tell()

    def pause(self, seconds: float) -> None:
        """Wait, unless the lease is lost."""
        self._end.wait(seconds)
        self.check()

    def _renew_until_end(self) -> None:
        period = min(self._lease_s / RENEWALS_PER_LEASE, LONGEST_PERIOD_S)
        while not self._end.wait(period):
            try:
                with self._database.begin() as session:
                    wish = renew_lease(session, self._lease, lease_s=self._lease_s)
                self.hear(wish)
            except LeaseLost:
                self.lost = True
                return
            except DatabaseDown as error:
                log.warning("lease not renewed, trying again: %s", str(error).splitlines()[0])

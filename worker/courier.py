"""Delivers what is told to webhooks. Of several couriers one leads; what it does is guarded by itself.

It looks for what is due and sends each in a thread, at most one at a time to an endpoint and a few in all,
so that a receiver that is slow or away holds up its own deliveries and nobody else's. The threads are left
behind at the end: what they were sending is sent again later, under the same event id.
"""

import logging
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Self

from core.store.database import Database, DatabaseDown
from core.store.deliveries import (
    Errand,
    claim_deliveries,
    delivered,
    disable_endpoint,
    forget_old_deliveries,
    not_delivered,
)
from core.store.leader import COURIER_LOCK, Leadership
from core.webhooks.addresses import AllowList
from core.webhooks.schedule import wait_s
from core.webhooks.send import Answer, Sender
from worker.settings import WorkerSettings

log = logging.getLogger(__name__)

AT_ONCE = 8
HELD_S = 120.0
"""Longer than a name is looked up and a receiver waited for."""


def utc_now() -> datetime:
    """This machine's clock: also the signature's, which a receiver compares with its own."""
    return datetime.now(UTC)


class Courier:
    """One look at a time. ``chance`` draws from 0 to 1 for the jitter of waits."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        *,
        kept_s: float,
        clock: Callable[[], datetime] = utc_now,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._sender = sender
        self._kept = timedelta(seconds=kept_s)
        self._clock = clock
        self._chance = chance
        self._leadership = Leadership(database, COURIER_LOCK)
        self._carriers: dict[str, threading.Thread] = {}

    @classmethod
    def open(cls, settings: WorkerSettings) -> Self:
        """With connections of its own, so that it and the janitor never wait for each other."""
        return cls(
            Database(settings.database_url, pool_size=4),
            Sender(AllowList.parse(settings.webhook_allow)),
            kept_s=settings.webhook_kept_s,
        )

    def run(self, end: threading.Event, look_s: float) -> None:
        """Look every so many seconds until ``end`` is set. If this fails, it sets ``end`` itself."""
        try:
            while not end.wait(look_s):
                self.look()
        finally:
            end.set()
            self.close()

    def close(self) -> None:
        """Let another one deliver."""
        self._leadership.release()

    def look(self) -> None:
        """Begin what is due now. A database that is away is waited for."""
        try:
            if self._leadership.held():
                self._begin_what_is_due()
        except DatabaseDown as error:
            log.warning("the database is away: %s", str(error).splitlines()[0])

    def settle(self) -> None:
        """Wait until nothing is being sent."""
        for carrier in list(self._carriers.values()):
            carrier.join()

    def _begin_what_is_due(self) -> None:
        alive = {id: carrier for id, carrier in self._carriers.items() if carrier.is_alive()}
        self._carriers = alive
        now = self._clock()
        with self._database.begin() as session:
            forget_old_deliveries(session, now - self._kept)
            errands = claim_deliveries(
                session, now, most=AT_ONCE - len(alive), busy=alive.keys(), held_s=HELD_S
            )
        for errand in errands:
            carrier = threading.Thread(target=self._carry, args=(errand,), daemon=True)
            self._carriers[errand.endpoint_id] = carrier
            carrier.start()

    def _carry(self, errand: Errand) -> None:
        answer = self._sender.send(errand.url, errand.event, errand.secrets, self._clock())
        try:
            self._write_down(errand, answer)
        except DatabaseDown as error:
            log.warning("%s may be sent again: %s", errand.event.id, str(error).splitlines()[0])

    def _write_down(self, errand: Errand, answer: Answer) -> None:
        now, event, endpoint_id = self._clock(), errand.event, errand.endpoint_id
        wait = wait_s(errand.attempt, answer.retry_after_s, self._chance())
        with self._database.begin() as session:
            if answer.accepted:
                assert answer.status is not None
                return delivered(session, errand, now, answer.status)
            if answer.gone:
                disable_endpoint(session, endpoint_id, now, answer.status or 0)
            else:
                not_delivered(
                    session,
                    errand,
                    now,
                    wait_s=wait,
                    status_code=answer.status,
                    problem=answer.problem,
                )
        if answer.gone:
            log.warning("webhook endpoint %s is gone and was disabled", endpoint_id)
        elif wait is None:
            log.warning("event %s is given up: endpoint %s never took it", event.id, endpoint_id)
        return None

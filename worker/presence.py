"""A worker says every few seconds that it is there, and at its end that it is gone.

What it says is only ever advice: where a job fits, and what a queued job waits for. Who holds a job is
told by leases alone.
"""

import logging
import threading
from collections.abc import Sequence
from typing import Self

from core.store.database import Database, DatabaseDown
from core.store.workers import SILENT_S, remove_worker, report_worker
from worker.device import Device
from worker.limits import Limits

log = logging.getLogger(__name__)

REPORT_EVERY_S = SILENT_S / 6


class Presence:
    """Speaks for one worker, from `start` to the end of the ``with`` block.

    Of one that runs several trainers at once each slot is listed, NAME/0 and so on, with its devices.
    """

    def __init__(
        self,
        database: Database,
        name: str,
        *,
        version: str,
        devices: Sequence[Device],
        every_s: float = REPORT_EVERY_S,
        limits: Limits | None = None,
    ) -> None:
        self._database = database
        self._name = name
        self._version = version
        self._limits = limits
        several = len(devices) > 1
        self._slots = {
            f"{name}/{slot}" if several else name: device for slot, device in enumerate(devices)
        }
        self._every_s = every_s
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        self._end.set()
        self._thread.join()
        try:
            with self._database.begin() as session:
                for name in self._slots:
                    remove_worker(session, name)
        except DatabaseDown:
            log.warning("worker %s ends unheard; it is forgotten in time", self._name)
        self._database.close()

    def start(self, **_: object) -> None:
        """From now on; not earlier than all processes are forked, which share no thread or connection."""
        self._thread = threading.Thread(target=self._report_until_end, name="presence", daemon=True)
        self._thread.start()

    def _report_until_end(self) -> None:
        self._report()
        while not self._end.wait(self._every_s):
            self._report()

    def _report(self) -> None:
        try:
            with self._database.begin() as session:
                for name, device in self._slots.items():
                    report_worker(
                        session,
                        name,
                        version=self._version,
                        device=device.name,
                        device_bytes=device.bytes,
                        devices=device.count,
                        limits=None if self._limits is None else self._limits.of(device),
                    )
        except DatabaseDown as error:
            log.warning("the database is away: %s", str(error).splitlines()[0])

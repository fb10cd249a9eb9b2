"""The longest contexts of the models that lie here, on this worker's device: found beside the work, and kept.

They are asked of a process that may import torch, a while after the start so that a job goes first, and
again when a model came or went.
"""

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Self

from core.models.catalog import Catalog
from worker.device import Device

log = logging.getLogger(__name__)

ASK = (sys.executable, "-P", "-m", "core.train.limits")
ASKING_LIMIT_S = 900
FIRST_AFTER_S = 20.0
LOOK_EVERY_S = 60.0
Models = dict[str, float]
"""Names of models, with the time at which their configuration was written."""


class Limits:
    """``known``: limits by model, or None while they are not known. Looks from `start` to the block's end."""

    def __init__(
        self,
        catalog: Catalog,
        devices: Sequence[Device],
        *,
        ask: Sequence[str] = ASK,
        first_after_s: float = FIRST_AFTER_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._catalog = catalog
        first = devices[0]
        # Of several the smallest: what fits there fits everywhere.
        sizes = [one.bytes for one in devices if one.name == first.name and one.bytes is not None]
        self._device = Device(first.name, min(sizes, default=None))
        self._ask = ask
        self._waits = (first_after_s, look_every_s)
        self._end = threading.Event()
        self.known: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()

    def of(self, device: Device) -> dict[str, Any] | None:
        """What is known of a device of the worker."""
        return self.known if device.name == self._device.name else None

    def start(self, **_: object) -> None:
        """From now on; a worker that does not know its memory has no limits to tell."""
        if self._device.bytes is not None:
            # It may wait for a process for minutes, which nobody waits for at the end.
            threading.Thread(target=self._look, name="limits", daemon=True).start()

    def _look(self) -> None:
        seen: Models | None = None
        wait_s, again_s = self._waits
        while not self._end.wait(wait_s):
            wait_s = again_s
            models = self._models()
            if models != seen:
                seen, self.known = models, self._found(models)

    def _models(self) -> Models:
        found = {}
        for name in self._catalog.names():
            try:
                config = self._catalog.folder / name / "config.json"
                found[name] = config.stat().st_mtime
            except OSError:  # It went meanwhile.
                continue
        return found

    def _found(self, models: Models) -> dict[str, Any] | None:
        order = {
            "models": {name: str((self._catalog.folder / name).resolve()) for name in models},
            "device": "cpu" if self._device.name == "cpu" else "cuda",
            "budget_bytes": self._device.bytes,
        }
        try:
            asked = subprocess.run(  # noqa: S603 - our own command
                self._ask,
                check=True,
                input=json.dumps(order).encode() + b"\n",
                capture_output=True,
                timeout=ASKING_LIMIT_S,
            )
            found: dict[str, Any] = json.loads(asked.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            log.warning("the longest contexts are not known: %s", error)
            return None
        return found

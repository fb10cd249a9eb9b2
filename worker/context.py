"""What a worker process works with, made once after the fork."""

import os
import socket
from dataclasses import dataclass
from typing import Self

from core.models.catalog import Catalog
from core.store.blobs import Blobs
from core.store.database import Database
from core.store.objects import open_blobs
from core.store.placement import Room
from worker.device import Device
from worker.settings import WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """Database, blobs, models and settings; ``name`` tells this process from others in events.

    ``device``: what its trainers compute with; None: what they find.
    """

    settings: WorkerSettings
    database: Database
    blobs: Blobs
    catalog: Catalog
    name: str
    device: Device | None = None

    def gpus(self, devices: int) -> str | None:
        """Those that the trainer of a job on so many devices sees; None: all that this process sees."""
        return None if self.device is None else self.device.gpus(devices)

    @property
    def room(self) -> Room:
        """What a job can have here."""
        return Room(
            devices=self.settings.devices_per_job if self.device is None else self.device.count,
            bytes=self.settings.device_bytes,
            fewer_after_s=self.settings.fewer_devices_after_s,
        )

    @classmethod
    def open(cls, settings: WorkerSettings, device: Device | None = None) -> Self:
        """Nothing is connected yet. ``device``: that of this process's trainers."""
        if device is not None:
            settings = settings.model_copy(update={"device_bytes": device.bytes})
        database = Database(settings.database_url, pool_size=4)
        return cls(
            settings=settings,
            database=database,
            blobs=open_blobs(database, settings.artifacts_url),
            catalog=Catalog(settings.models_dir, settings.allowed_models),
            name=process_name(),
            device=device,
        )


def process_name() -> str:
    """Host and process, as they stand in events and in the list of workers."""
    return f"{socket.gethostname()}:{os.getpid()}"

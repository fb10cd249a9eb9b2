"""One worker as a process: Celery's, and beside it the word that it is there."""

from collections.abc import Sequence
from contextlib import nullcontext
from importlib.metadata import PackageNotFoundError, version

from celery.signals import worker_ready

from core.models.catalog import Catalog
from core.spec.bell import TRAIN_QUEUE
from core.store.database import Database
from worker.app import configure
from worker.context import process_name
from worker.device import Device, find_device
from worker.limits import Limits
from worker.presence import Presence
from worker.settings import WorkerSettings

PACKAGE = "castalia"


def serve(settings: WorkerSettings, queues: Sequence[str], concurrency: int) -> None:
    """Answer rings on ``queues`` until a signal ends this process; it exits from within."""
    if TRAIN_QUEUE not in queues:
        return _run(settings, queues, concurrency, None, None)
    device = find_device()
    if settings.device_bytes is None:
        settings = settings.model_copy(update={"device_bytes": device.bytes})
    device = Device(device.name, settings.device_bytes)
    limits = Limits(Catalog(settings.models_dir, settings.allowed_models), device)
    return _run(settings, queues, concurrency, _presence(settings, device, limits), limits)


def _run(
    settings: WorkerSettings,
    queues: Sequence[str],
    concurrency: int,
    presence: Presence | None,
    limits: Limits | None,
) -> None:
    with presence or nullcontext(), limits or nullcontext():
        for told in (presence, limits):
            if told is not None:
                worker_ready.connect(told.start)
        configure(settings).worker_main(
            [
                "worker",
                f"--queues={','.join(queues)}",
                f"--concurrency={concurrency}",
                f"--hostname={'-'.join(queues)}@%h",
                "--pool=prefork",
                "--loglevel=INFO",
                "--without-gossip",
                "--without-mingle",
            ]
        )


def _presence(settings: WorkerSettings, device: Device, limits: Limits) -> Presence:
    return Presence(
        Database(settings.database_url, pool_size=1),
        process_name(),
        version=_version(),
        device=device,
        limits=limits,
    )


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # Run from a source tree that nobody installed.
        return "source"

"""One worker as a process: Celery's, and beside it the word that it is there, and a broom."""

from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version

from celery.signals import worker_ready

from core.models.catalog import Catalog
from core.spec.bell import TRAIN_QUEUE
from core.store.database import Database
from worker.app import configure
from worker.context import process_name
from worker.device import Device, devices_of_slots, find_devices
from worker.limits import Limits
from worker.presence import Presence
from worker.settings import WorkerSettings
from worker.stale_runs import StaleRuns

PACKAGE = "castalia"


def serve(settings: WorkerSettings, queues: Sequence[str], concurrency: int) -> None:
    """Answer rings on ``queues`` until a signal ends this process; it exits from within.

    Raises TooFewDevices.
    """
    if TRAIN_QUEUE not in queues:
        return _run(settings, queues, concurrency, [])
    devices = devices_of_slots(
        find_devices(), concurrency, settings.device_bytes, settings.devices_per_job
    )
    return _run(settings, queues, concurrency, devices)


def _run(
    settings: WorkerSettings, queues: Sequence[str], concurrency: int, devices: Sequence[Device]
) -> None:
    with ExitStack() as beside:
        if devices:
            limits = Limits(Catalog(settings.models_dir, settings.allowed_models), devices)
            presence = _presence(settings, devices, limits)
            for thread in (presence, limits, _stale_runs(settings)):
                beside.enter_context(thread)
                worker_ready.connect(thread.start)
        configure(settings, devices).worker_main(
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


def _presence(settings: WorkerSettings, devices: Sequence[Device], limits: Limits) -> Presence:
    return Presence(
        Database(settings.database_url, pool_size=1),
        process_name(),
        version=_version(),
        devices=devices,
        limits=limits,
    )


def _stale_runs(settings: WorkerSettings) -> StaleRuns:
    database = Database(settings.database_url, pool_size=1)
    return StaleRuns(database, settings.runs_dir, settings.orphan_run_s)


def _version() -> str:
    try:
        return version(PACKAGE)
    except PackageNotFoundError:  # Run from a source tree that nobody installed.
        return "source"

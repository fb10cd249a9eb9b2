"""`castalia api | worker | janitor | migrate`: the processes of the service, one at a time."""

import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Literal

import typer

from castalia.database import open_database
from castalia.errors import CastaliaError
from castalia.ports import check_port
from castalia.settings import read_settings
from core.spec.bell import PREPARE_QUEUE, TRAIN_QUEUE
from core.spec.parallel import MOST_DEVICES

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class DevicesMissingError(CastaliaError):
    """A worker's slots are to own GPUs that are not there."""

    exit_code = 2

    def __init__(self, reason: Exception) -> None:
        super().__init__(
            str(reason), "lower --concurrency or --devices-per-job, or the settings they stand for"
        )


Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on.")]


def api(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    migrate_first: Annotated[
        bool, typer.Option("--migrate", help="Bring the schema up to date first.")
    ] = False,
    key_file: Annotated[
        Path | None, typer.Option(help="A file with a key that is let in from the start.")
    ] = None,
) -> None:
    """Serve the HTTP API."""
    import uvicorn

    from api.app import create_app
    from api.serve import server_options
    from api.settings import ApiSettings

    settings = read_settings(ApiSettings)
    check_port(host, port)
    if migrate_first:
        migrate()
    if key_file is not None:
        _let_in(key_file)
    _log_to_stderr()
    uvicorn.run(create_app(settings), host=host, port=port, **server_options(settings))


def worker(
    queue: Annotated[
        Literal["train", "prepare", "chat", "all"],
        typer.Option(help="Which queue to serve; all: train and prepare."),
    ] = "all",
    concurrency: Annotated[int, typer.Option(min=1, help="Tasks at once; one a device.")] = 1,
    devices_per_job: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_DEVICES, help="Devices that each task owns; else by the setting, 1."
        ),
    ] = None,
) -> None:
    """Take jobs from the queue and watch over their trainers."""
    from worker.device import TooFewDevices
    from worker.serve import serve
    from worker.settings import WorkerSettings

    settings = read_settings(WorkerSettings)
    if devices_per_job is not None:
        settings = settings.model_copy(update={"devices_per_job": devices_per_job})
    queues = [TRAIN_QUEUE, PREPARE_QUEUE] if queue == "all" else [queue]
    _log_to_stderr()
    try:
        serve(settings, queues, concurrency)
    except TooFewDevices as error:
        raise DevicesMissingError(error) from None


def janitor() -> None:
    """Take back jobs whose worker is lost, ring for what nobody heard, and deliver to webhooks."""
    from worker.app import configure, ring
    from worker.context import WorkerContext
    from worker.courier import Courier
    from worker.janitor import Janitor
    from worker.settings import WorkerSettings

    settings = read_settings(WorkerSettings)
    configure(settings)
    _log_to_stderr()
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    context, courier = WorkerContext.open(settings), Courier.open(settings)
    threading.Thread(target=courier.run, args=(end, settings.sweep_s), daemon=True).start()
    Janitor(context, ring).run(end)


def migrate() -> None:
    """Bring the database's schema up to date."""
    import migrations

    with open_database(migrating=True) as database:
        migrations.upgrade(database.engine)


def _let_in(key_file: Path) -> None:
    from core.store.keys import ensure_key

    with open_database() as database, database.begin() as session:
        ensure_key(session, "bootstrap", key_file.read_text().strip())


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)

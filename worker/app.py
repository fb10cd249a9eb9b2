"""All of Celery: the settings that survived kills of worker, broker and database, and three thin tasks.

Early acknowledgement, because a late one makes Redis deliver a long job twice; nothing is lost by it, since
the row is the truth and the sweep rings again. No results, no prefetching, one job a process.
"""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from multiprocessing import current_process

# Read by Celery when it is imported: SIGTERM ends running tasks in order instead of waiting for them.
os.environ.setdefault("REMAP_SIGTERM", "SIGQUIT")

from celery import Celery
from kombu.exceptions import OperationalError

from core.spec.bell import (
    BELL_SETTINGS,
    CHAT_TASK,
    PREPARE_TASK,
    QUEUE_OF_TASK,
    RING_EXPIRES_S,
    TRAIN_TASK,
)
from core.store.queue import queued_jobs
from worker.chat import ChatDesk
from worker.context import WorkerContext
from worker.device import Device
from worker.prepare import prepare_file
from worker.settings import WorkerSettings
from worker.supervise import supervise_next

log = logging.getLogger(__name__)

app = Celery("castalia")
app.conf.update(BELL_SETTINGS)
app.conf.update(
    broker_connection_max_retries=None,
    broker_connection_retry_on_startup=True,
    task_acks_late=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_disable_prefetch=True,
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=1,
    worker_send_task_events=False,
)


def configure(settings: WorkerSettings, devices: Sequence[Device] = ()) -> Celery:
    """The application for a broker, ready to run as a worker or to ring.

    ``devices``: of its processes, by their number in the pool.
    """
    app.conf.broker_url = settings.broker_url
    app.conf.worker_soft_shutdown_timeout = 0.5
    app.conf.castalia_settings = settings
    app.conf.castalia_devices = tuple(devices)
    return app


@cache
def context() -> WorkerContext:
    """This process's own: first asked for inside a task, so after the fork."""
    devices = app.conf.castalia_devices
    # Whoever takes the place of a process that died has its number.
    slot = getattr(current_process(), "index", 0)
    return WorkerContext.open(
        app.conf.castalia_settings, devices[slot % len(devices)] if devices else None
    )


@app.task(name=TRAIN_TASK)  # type: ignore[untyped-decorator]
def train(job_id: str) -> None:
    """Somebody rang: look at the queue, whose first job need not be the one that was rung for."""
    log.info("rung for job %s", job_id)
    if supervise_next(context()):
        _ring_for_the_next()


@app.task(name=PREPARE_TASK)  # type: ignore[untyped-decorator]
def prepare(file_id: str) -> None:
    """Somebody rang for an uploaded file."""
    for job_id in prepare_file(context(), file_id):
        ring(TRAIN_TASK, job_id)


@cache
def chat_desk() -> ChatDesk:
    """This process's own, with the one model that it keeps in memory."""
    return ChatDesk(context())


@app.task(name=CHAT_TASK)  # type: ignore[untyped-decorator]
def chat(order_id: str) -> None:
    """Somebody waits for an answer."""
    chat_desk().serve(order_id)


def _ring_for_the_next() -> None:
    """Rings may have expired while a job ran, and the sweep repeats them only now and then."""
    with context().database.begin() as session:
        waiting = queued_jobs(session, context().settings.quotas)
    if waiting:
        with suppress(OperationalError):  # The sweep rings when the broker is back.
            ring(TRAIN_TASK, waiting[0])


def ring(task: str, id: str) -> None:
    """Tell a worker to look at ``id``. Raises kombu's OperationalError if the broker is away."""
    app.send_task(task, (id,), queue=QUEUE_OF_TASK[task], expires=RING_EXPIRES_S, retry=False)

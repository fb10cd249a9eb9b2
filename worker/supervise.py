"""One attempt at the job that is next: claim it, lay it out, watch the trainer, and say how it ended.

    claim ─ lay out ─ start the trainer ─┬─ follow its events ──────────┬─ conclude
                                         ├─ upload its checkpoints      │
                                         └─ keep the lease, hear wishes ┘

Whatever ends the attempt, the trainer is dead when `supervise_next` returns.
"""

import logging

from core.spec.errors import RunFailure
from core.store.attempts import fail_attempt, stop_attempt
from core.store.errors import LeaseLost
from core.store.leases import Lease
from core.store.queue import claim_next
from worker.context import WorkerContext
from worker.keeper import LeaseKeeper
from worker.layout import lay_out, remove_run
from worker.pen import Pen
from worker.trainer import Trainer
from worker.upload import Uploader
from worker.watch import Watch

log = logging.getLogger(__name__)

SHUTDOWN = "The worker is shutting down; the job goes on elsewhere"


def supervise_next(context: WorkerContext) -> bool:
    """Run the first job of the queue to its end; returns whether there was one."""
    lease_s = context.settings.lease_s
    with context.database.begin() as session:
        lease = claim_next(session, worker=context.name, lease_s=lease_s)
    if lease is None:
        log.info("no job is free")
        return False
    log.info("job %s: attempt %d", lease.job_id, lease.attempt)
    with LeaseKeeper(context.database, lease, lease_s) as keeper:
        pen = Pen(context.database, keeper)
        try:
            _attempt(context, lease, keeper, pen)
        except LeaseLost as error:
            log.warning("%s; nothing more is written", error)
        except RunFailure as failure:
            reason = failure.error
            retries = context.settings.retries
            pen.write(lambda session: fail_attempt(session, lease, reason, retries))
        except SystemExit:
            pen.write(lambda session: stop_attempt(session, lease, SHUTDOWN))
            raise
    return True


def _attempt(context: WorkerContext, lease: Lease, keeper: LeaseKeeper, pen: Pen) -> None:
    directory = lay_out(context, lease)
    settings = context.settings
    with (
        Trainer(directory, settings.cache_dir, settings.cache_bytes) as trainer,
        Uploader(context, lease, keeper) as uploader,
    ):
        watch = Watch(directory, lease, trainer, uploader, keeper, pen, settings)
        try:
            exit_code = watch.until_exit()
        except SystemExit:
            watch.stop_and_save()
            raise
        uploader.finish()
    watch.conclude(exit_code)
    remove_run(context, lease)

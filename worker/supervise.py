"""One attempt at one job: claim it, lay it out, watch the trainer, and say how it ended.

    claim ─ lay out ─ start the trainer ─┬─ follow its events ──────────┬─ conclude
                                         ├─ upload its checkpoints      │
                                         └─ keep the lease, hear wishes ┘

Whatever ends the attempt, the trainer is dead when `supervise_job` returns.
"""

import logging

from core.spec.errors import RunFailure
from core.store.attempts import Lease, claim_job, fail_attempt, hand_back
from core.store.errors import LeaseLost
from worker.context import WorkerContext
from worker.keeper import LeaseKeeper
from worker.layout import lay_out, remove_run
from worker.pen import Pen
from worker.trainer import Trainer
from worker.upload import Uploader
from worker.watch import Watch

log = logging.getLogger(__name__)

SHUTDOWN = "The worker is shutting down; the job goes on elsewhere"


def supervise_job(context: WorkerContext, job_id: str) -> None:
    """Run a job to its end, if it is free. Somebody else's job is left alone."""
    lease_s = context.settings.lease_s
    with context.database.begin() as session:
        lease = claim_job(session, job_id, worker=context.name, lease_s=lease_s)
    if lease is None:
        log.info("job %s is not free", job_id)
        return
    log.info("job %s: attempt %d", job_id, lease.attempt)
    with LeaseKeeper(context.database, lease, lease_s) as keeper:
        pen = Pen(context.database, keeper)
        try:
            _attempt(context, lease, keeper, pen)
        except LeaseLost as error:
            log.warning("%s; nothing more is written", error)
        except RunFailure as failure:
            reason = failure.error
            pen.write(lambda session: fail_attempt(session, lease, reason))
        except SystemExit:
            pen.write(lambda session: hand_back(session, lease, SHUTDOWN))
            raise


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

"""One attempt at the job that is next: claim it, lay it out, watch the trainer, and say how it ended.

    claim ─ lay out ─ start the trainer ─┬─ follow its events ──────────┬─ conclude
                                         ├─ upload its checkpoints      │
                                         └─ keep the lease, hear wishes ┘

Whatever ends the attempt, the trainer is dead when `supervise_next` returns, and the row says how it ended.
"""

import logging
from contextlib import suppress

from core.spec.errors import JobError, RunFailure
from core.store.attempts import fail_attempt
from core.store.database import DatabaseDown
from core.store.errors import LeaseLost
from core.store.leases import Lease
from core.store.queue import claim_next
from worker.context import WorkerContext
from worker.ending import unexpected
from worker.keeper import LeaseKeeper, WishHeard
from worker.last_words import store_log
from worker.layout import lay_out, remove_run, run_directory
from worker.pen import Pen
from worker.results import Results
from worker.trainer import Trainer
from worker.upload import Uploader
from worker.watch import STOPPED, Watch

log = logging.getLogger(__name__)

SHUTDOWN = "The worker is shutting down; the job goes on elsewhere"


def supervise_next(context: WorkerContext) -> bool:
    """Run the first job of the queue to its end; returns whether there was one."""
    lease = _claim(context)
    if lease is None:
        log.info("no job is free")
        return False
    log.info("job %s: attempt %d", lease.job_id, lease.attempt)
    try:
        with LeaseKeeper(context.database, lease, context.settings.lease_s) as keeper:
            _Attempt(context, lease, keeper).run()
    except LeaseLost as error:
        log.warning("%s; nothing more is written", error)
    finally:
        remove_run(run_directory(context, lease))
    return True


def _claim(context: WorkerContext) -> Lease | None:
    settings = context.settings
    try:
        with context.database.begin() as session:
            return claim_next(
                session,
                worker=context.name,
                lease_s=settings.lease_s,
                device=None if context.device is None else context.device.name,
                room=context.room,
                quotas=settings.quotas,
            )
    except DatabaseDown as error:
        log.warning("the database is away: %s", str(error).splitlines()[0])
        return None


class _Attempt:
    """What one lease is used for."""

    def __init__(self, context: WorkerContext, lease: Lease, keeper: LeaseKeeper) -> None:
        self._context = context
        self._lease = lease
        self._keeper = keeper
        self._pen = Pen(context.database, keeper)
        self._results = Results(context, lease, keeper, self._pen)

    def run(self) -> None:
        """Ends in a row that says how, unless the lease is lost: raises LeaseLost.

        Raises SystemExit if the worker was told to end, and whatever the worker itself failed of.
        """
        try:
            self._train()
        except WishHeard:
            self._stop(STOPPED)
        except RunFailure as failure:
            self._fail(failure.error)
        except SystemExit:
            with suppress(LeaseLost):  # Told to end just after it had ended by itself.
                self._stop(SHUTDOWN)
            raise
        except LeaseLost:
            raise
        except Exception as error:
            log.exception("job %s: the worker failed", self._lease.job_id)
            self._fail(unexpected(error))
            raise

    def _train(self) -> None:
        context, lease, keeper, pen = self._context, self._lease, self._keeper, self._pen
        directory, settings = lay_out(context, lease, keeper), context.settings
        devices = lease.spec.trainer.parallel.devices
        with (
            Trainer(
                directory,
                settings.cache_dir,
                settings.cache_bytes,
                gpus=context.gpus(devices),
                devices=devices,
            ) as trainer,
            Uploader(context, lease, keeper, pen) as uploader,
        ):
            watch = Watch(directory, lease, trainer, uploader, keeper, pen, settings)
            try:
                exit_code = watch.until_exit()
                uploader.finish()
            except SystemExit:
                _save(watch)
                raise
        watch.conclude(exit_code, self._results)

    def _stop(self, reason: str) -> None:
        self._results.stop(reason)

    def _fail(self, error: JobError) -> None:
        """The log is stored first, so that the row can name it; a job that is to be cancelled names none."""
        context, lease = self._context, self._lease
        words = None
        if self._keeper.wish != "cancel":
            words = store_log(context.blobs, run_directory(context, lease), self._keeper)
        retries = context.settings.retries
        self._results.end(
            lambda session, csv: fail_attempt(
                session, lease, error, retries, log=words, results=csv
            )
        )


def _save(watch: Watch) -> None:
    try:
        watch.stop_and_save()
    except RunFailure as failure:
        log.warning("%s; the job goes on from an older checkpoint", failure)

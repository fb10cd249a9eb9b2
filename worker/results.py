"""The result file of a job: its metrics as CSV, one row a step, stored as the job ends.

The one idea: the bytes are stored first, and the transaction that ends the job names them; so a job that
has ended has its file. Where an ending comes without a worker, the janitor writes the file after it.
"""

import csv
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

from core.spec.errors import RunFailure
from core.store.attempts import stop_attempt
from core.store.blobs import Blob
from core.store.database import Database, DatabaseDown, Session
from core.store.errors import ArtifactsDown
from core.store.files import is_named
from core.store.leases import Lease
from core.store.results import (
    add_missing_results,
    jobs_without_results,
    metric_events,
    metric_names,
)
from worker.context import WorkerContext
from worker.in_time import patiently_in_time
from worker.keeper import LeaseKeeper
from worker.pen import Pen

log = logging.getLogger(__name__)

COLUMNS = {
    "step": "step",
    "train_loss": "train_loss",
    "train_mean_token_accuracy": "train_mean_token_accuracy",
    "valid_loss": "valid_loss",
    "valid_mean_token_accuracy": "valid_mean_token_accuracy",
    "full_valid_loss": "full_valid_loss",
    "full_valid_mean_token_accuracy": "full_valid_mean_token_accuracy",
    "learning_rate": "learning_rate",
    "grad_norm": "grad_norm",
    "tokens": "tokens",
    "tokens_per_s": "tokens_per_second",
    "peak_gpu_bytes": "peak_memory_bytes",
    "epoch": "epoch",
}
"""OpenAI's columns and ours, by the names that events have for them; other metrics follow by name."""
EVENTS_AT_ONCE = 1000
JOBS_AT_ONCE = 20
LIMIT_S = 60.0
Ending = Callable[[Session, Blob | None], object]


class Results:
    """What one attempt has to show, should it end the job."""

    def __init__(self, context: WorkerContext, lease: Lease, keeper: LeaseKeeper, pen: Pen) -> None:
        self._context = context
        self._lease = lease
        self._job_id = lease.job_id
        self._keeper = keeper
        self._pen = pen

    def end(self, ending: Ending) -> None:
        """Write an ending, which is given the stored file; one that it does not name is forgotten.

        Raises LeaseLost.
        """
        self._end(ending, self._stored())

    def stop(self, reason: str) -> None:
        """The run stopped in order, which ends the job only if its user wanted that. Raises LeaseLost."""
        blob = self._stored() if self._keeper.wish == "cancel" else None
        self._end(
            lambda session, results: stop_attempt(session, self._lease, reason, results=results),
            blob,
        )

    def _end(self, ending: Ending, blob: Blob | None) -> None:
        try:
            self._pen.write(lambda session: ending(session, blob))
        finally:
            if blob is not None:
                _forget_unnamed(self._context, blob)

    def _stored(self) -> Blob | None:
        limit_s = min(LIMIT_S, self._context.settings.upload_limit_s)
        try:
            return patiently_in_time(
                self._store, self._keeper, "results not stored", limit_s=limit_s
            )
        except RunFailure as failure:
            log.warning("%s; the janitor writes the results of job %s", failure, self._job_id)
            return None

    def _store(self) -> Blob | None:
        with self._context.database.begin() as session:
            names = metric_names(session, self._job_id)
        if not names:
            return None
        return self._context.blobs.write(result_csv(self._context.database, self._job_id, names))


def write_missing_results(context: WorkerContext) -> None:
    """Results of jobs that ended without a worker: cancelled while they waited, or lost."""
    with context.database.begin() as session:
        job_ids = jobs_without_results(session, JOBS_AT_ONCE)
    for job_id in job_ids:
        with context.database.begin() as session:
            names = metric_names(session, job_id)
        try:
            blob = context.blobs.write(result_csv(context.database, job_id, names))
        except ArtifactsDown as error:
            log.warning("results of job %s not stored: %s", job_id, error)
            return
        with context.database.begin() as session:
            added = add_missing_results(session, job_id, blob)
        if not added:
            _forget_unnamed(context, blob)


def result_csv(database: Database, job_id: str, names: Iterable[str]) -> Iterator[bytes]:
    """The file, a line at a time; ``names`` are those of all metrics of the job."""
    known = set(COLUMNS.values())
    columns = COLUMNS | {name: name for name in names if name not in known}
    yield _line(columns)
    told = groupby(_metrics(database, job_id), key=lambda data: data["step"])
    for _, of_a_step in told:
        row: dict[str, Any] = {}
        for data in of_a_step:
            row |= data
        yield _line(row.get(name, "") for name in columns.values())


def _metrics(database: Database, job_id: str) -> Iterator[dict[str, Any]]:
    after = 0
    while True:
        with database.begin() as session:
            page = metric_events(session, job_id, after=after, limit=EVENTS_AT_ONCE)
        if not page:
            return
        after = page[-1][0]
        yield from (data for _, data in page)


def _line(cells: Iterable[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def _forget_unnamed(context: WorkerContext, blob: Blob) -> None:
    with suppress(*DatabaseDown, ArtifactsDown):  # The janitor deletes what nobody names.
        with context.database.begin() as session:
            named = is_named(session, blob.id)
        if not named:
            context.blobs.delete(blob.id)

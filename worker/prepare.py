"""An uploaded training file is checked, line by line, before a GPU is touched."""

import logging

from core.data.check import check_rows
from core.data.file_check import unfit_file
from core.store.errors import NotFound
from core.store.files import find_unprepared, set_prepared
from core.store.jobs import jobs_waiting_for_files, settle_files
from worker.context import WorkerContext

log = logging.getLogger(__name__)


def prepare_file(context: WorkerContext, file_id: str) -> list[str]:
    """Check a file, store the report, and move its jobs on; returns the jobs that are now queued.

    Preparing a file twice changes nothing; a file that is gone by now is left alone.
    """
    with context.database.begin() as session:
        file = find_unprepared(session, file_id)
    if file is None:
        return []
    try:
        report = check_rows(context.blobs.read(file.blob_id))
    except NotFound:
        log.info("file %s was deleted while it was checked", file_id)
        return []
    log.info("file %s: %s", file_id, report.summary)
    queued = []
    with context.database.begin() as session:
        set_prepared(
            session,
            file_id,
            ok=report.ok,
            details=None if report.ok else report.summary,
            report=report.model_dump(mode="json"),
        )
        for job in jobs_waiting_for_files(session, file_id):
            settle_files(session, job, unfit_file)
            if job.status == "queued":
                queued.append(job.id)
    return queued

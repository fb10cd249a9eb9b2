"""A job that does not fit where it was begun goes to a worker that is larger, if one is there."""

from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.store.tables import JobRow
from core.store.workers import live_workers


def fits_elsewhere(session: Session, job: JobRow, error: JobError) -> bool:
    """Whether the trainer's plan, which the ``error`` tells, fits a worker that is there; the job keeps it.

    Once moved for a plan, a job is not moved for the same plan again: then the memory is there, but not free.
    """
    need = error.needed_bytes
    if need is None or job.predicted_bytes == need:
        return False
    job.predicted_bytes = need
    return any(
        worker.device_bytes and worker.device_bytes >= need for worker in live_workers(session)
    )

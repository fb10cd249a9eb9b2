"""The same request again makes no second job.

A client that gives an Idempotency-Key is answered with the job that the key made. OpenAI's client gives
none when it tries again, but counts its tries; so a request that says it is a retry is answered with the
job that the same body made under the same API key a moment ago. A retry may arrive while the first request
is still being carried out: both take a lock on the body, so the second waits and then finds the job.
"""

from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from core.store.errors import StoreError
from core.store.leases import from_now
from core.store.tables import JobRow, ReplayRow

RETRIED_WITHIN_S = 600.0
REMEMBERED_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it can be known again. ``name``: its Idempotency-Key, if it has one."""

    key_id: str
    body_sha256: str
    name: str | None
    is_retry: bool


class KeyReused(StoreError):
    """An Idempotency-Key that stands for another body already."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"Idempotency-Key '{name}' was sent with another body before; use a new key for a new job"
        )


def replayed_job(session: Session, request: Request) -> JobRow | None:
    """The job that this request made before. Raises KeyReused.

    Until the transaction ends, the same request waits here.
    """
    what = f"{request.key_id} {request.name or request.body_sha256}"
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(what, 0))))
    query = select(ReplayRow).where(ReplayRow.key_id == request.key_id)
    if request.name is not None:
        query = query.where(ReplayRow.name == request.name)
    elif request.is_retry:
        recent = ReplayRow.created_at > from_now(-RETRIED_WITHIN_S)
        query = query.where(ReplayRow.body_sha256 == request.body_sha256, recent)
    else:
        return None
    found = session.scalar(query.order_by(ReplayRow.created_at.desc()).limit(1))
    if found is None:
        return None
    if found.body_sha256 != request.body_sha256:
        raise KeyReused(found.name)
    return session.get(JobRow, found.job_id)


def remember(session: Session, request: Request, job: JobRow) -> None:
    """This request made ``job``."""
    session.add(
        ReplayRow(
            key_id=request.key_id,
            name=request.name or job.id,
            body_sha256=request.body_sha256,
            job_id=job.id,
        )
    )
    session.flush()


def forget_old_requests(session: Session) -> None:
    """Remove what is older than a day."""
    session.execute(delete(ReplayRow).where(ReplayRow.created_at < from_now(-REMEMBERED_S)))

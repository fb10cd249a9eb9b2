"""How much a project may have and use at once, and the refusal of more.

Whatever would add to what is limited takes a lock on the project's row first, then counts: of requests at
the same time each sees what the one before it added, so no number of them gets past a quota. The lock is
one that rows which refer to the project do not wait for.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.store.errors import StoreError
from core.store.tables import ProjectRow, QuotaRow
from core.store.usage import Quota, end_of_day, used

HOLDING: tuple[Quota, ...] = ("device_seconds", "running_jobs")
"""What keeps a waiting job from running, though it was taken."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most of each; None: no limit."""

    running_jobs: int | None = None
    queued_jobs: int | None = None
    stored_bytes: int | None = None
    device_seconds: int | None = None

    def most(self, quota: Quota) -> int | None:
        """The limit of one of them."""
        limit: int | None = getattr(self, quota)
        return limit


UNLIMITED = Quotas()


class QuotaExceeded(StoreError):
    """More than the project may have. ``asked``: how much more, if that is known before it is used.

    ``retry_after_s`` is known where time alone helps.
    """

    def __init__(
        self,
        quota: Quota,
        limit: int,
        used: int,
        asked: int | None,
        retry_after_s: float | None,
    ) -> None:
        self.quota: Quota = quota
        self.limit = limit
        self.used = used
        self.asked = asked
        self.retry_after_s = retry_after_s
        more = "" if asked is None else f", and this would add {asked}"
        super().__init__(f"this project's quota of {quota} is {limit}: {used} are used{more}")


@dataclass(frozen=True, slots=True)
class Held:
    """Why the waiting jobs of a project may not run now; ``until`` is known where time alone helps."""

    message: str
    until: datetime | None


def quotas_of(session: Session, project_ids: Sequence[str], defaults: Quotas) -> dict[str, Quotas]:
    """The quotas of each project: its own word where it has one, else the service's."""
    found = dict.fromkeys(project_ids, defaults)
    for row in session.scalars(select(QuotaRow).where(QuotaRow.project_id.in_(project_ids))):
        found[row.project_id] = replace(found[row.project_id], **{row.name: row.most})
    return found


def set_quota(session: Session, project_id: str, quota: Quota, most: int | None) -> None:
    """The project's own word on a quota; None: no limit, whatever the service's is."""
    added = insert(QuotaRow).values(project_id=project_id, name=quota, most=most)
    session.execute(
        added.on_conflict_do_update(index_elements=["project_id", "name"], set_={"most": most})
    )


def reset_quota(session: Session, project_id: str, quota: Quota) -> None:
    """From now on the service's word counts."""
    own = (QuotaRow.project_id == project_id, QuotaRow.name == quota)
    session.execute(delete(QuotaRow).where(*own))


def admit_job(session: Session, project_id: str, defaults: Quotas) -> None:
    """Raises QuotaExceeded if the project may not have one more job that waits.

    A project whose store is full, or whose day is used up, may not either.
    """
    quotas = _locked(session, project_id, defaults)
    _admit(session, project_id, quotas, "queued_jobs", 1)
    _admit(session, project_id, quotas, "stored_bytes", None)
    _admit(session, project_id, quotas, "device_seconds", None)


def admit_bytes(session: Session, project_id: str, count: int, defaults: Quotas) -> None:
    """Raises QuotaExceeded if the project may not store so many bytes more."""
    quotas = _locked(session, project_id, defaults)
    _admit(session, project_id, quotas, "stored_bytes", count)


def has_room(session: Session, project_id: str, defaults: Quotas) -> bool:
    """Whether one more job of the project may run now; until the transaction ends that stays so."""
    _locked(session, project_id, defaults)
    return not held_back(session, [project_id], defaults)


def held_back(session: Session, project_ids: Sequence[str], defaults: Quotas) -> dict[str, Held]:
    """Those of the projects whose jobs may not run now, and why."""
    limits = quotas_of(session, project_ids, defaults)
    held: dict[str, Held] = {}
    for quota in HOLDING:
        most = {id: m for id, q in limits.items() if (m := q.most(quota)) is not None}
        for id, amount in used(session, quota, list(most)).items():
            if amount >= most[id]:
                message = f"The project's quota of {quota} is {most[id]}, and {amount} are used"
                until = end_of_day(session)[0] if quota == "device_seconds" else None
                held.setdefault(id, Held(message, until))
    return held


def _locked(session: Session, project_id: str, defaults: Quotas) -> Quotas:
    """The quotas of a project; its row is locked if there are any."""
    quotas = quotas_of(session, [project_id], defaults)[project_id]
    if any(most is not None for most in asdict(quotas).values()):
        lock = select(ProjectRow.id).where(ProjectRow.id == project_id)
        session.execute(lock.with_for_update(key_share=True))
    return quotas


def _admit(
    session: Session, project_id: str, quotas: Quotas, quota: Quota, asked: int | None
) -> None:
    most = quotas.most(quota)
    if most is None:
        return
    amount = used(session, quota, [project_id])[project_id]
    if amount + (1 if asked is None else asked) > most:
        retry_after_s = end_of_day(session)[1] if quota == "device_seconds" else None
        raise QuotaExceeded(quota, most, amount, asked, retry_after_s)

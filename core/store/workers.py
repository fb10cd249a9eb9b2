"""The workers that are there, as they say of themselves every few seconds."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.store.leases import from_now
from core.store.tables import JobRow, WorkerRow

SILENT_S = 30.0
"""A worker that said nothing for so long is not counted any more."""


def report_worker(
    session: Session,
    name: str,
    *,
    version: str,
    device: str,
    device_bytes: int | None,
    devices: int = 1,
    limits: dict[str, Any] | None = None,
) -> None:
    """A worker is there: its version, the memory of one of its devices, the contexts that fit by model.

    ``devices``: how many of them one job can have.
    """
    facts = {
        "version": version,
        "device": device,
        "device_bytes": device_bytes,
        "devices": devices,
        "limits": limits,
    }
    added = insert(WorkerRow).values(name=name, **facts)
    session.execute(
        added.on_conflict_do_update(
            index_elements=["name"], set_={**facts, "seen_at": func.clock_timestamp()}
        )
    )


def remove_worker(session: Session, name: str) -> None:
    """A worker has ended."""
    session.execute(delete(WorkerRow).where(WorkerRow.name == name))


def live_workers(session: Session) -> Sequence[WorkerRow]:
    """The workers that were heard from lately, by name."""
    recent = WorkerRow.seen_at > from_now(-SILENT_S)
    return session.scalars(select(WorkerRow).where(recent).order_by(WorkerRow.name)).all()


def idle_workers(session: Session) -> int:
    """How many of those that were heard from lately have nothing to do, over all projects."""
    running = select(func.count()).select_from(JobRow).where(JobRow.status == "running")
    return max(0, len(live_workers(session)) - (session.scalar(running) or 0))


def forget_silent_workers(session: Session) -> list[str]:
    """Remove workers that were not heard from for ten times as long; returns their names."""
    silent = WorkerRow.seen_at < from_now(-10 * SILENT_S)
    return list(session.scalars(delete(WorkerRow).where(silent).returning(WorkerRow.name)))

"""Which worker a job may go to: one that has its devices, each with the memory that the plan needs.

A job that never began waits for as many devices as it asked for. One that has begun does not wait for a
worker that may never come back: once it has waited for a while and none that is there has so many, it goes on
with fewer, on the worker that has the most, where its plan fits there for certain. What is spread (fsdp) then
lies on fewer devices, so each needs at most asked / given times the memory; a replica (ddp) needs what it
needed. Results are the same up to rounding, so what changes is only the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, and_, case, exists, or_, true
from sqlalchemy.orm import Session

from core.spec.errors import JobError
from core.store.devices import ASKED, STRATEGY, asked_devices
from core.store.leases import from_now
from core.store.tables import AttemptRow, JobRow, WorkerRow
from core.store.workers import live_workers

FEWER_AFTER_S = 300.0
Misfit = Literal["too_few_devices", "no_worker_large_enough"]


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker can give to one job: ``devices`` with so many ``bytes`` each; None: not known.

    ``fewer_after_s``: for how long none must have had enough devices before a job that has begun is
    taken with fewer; None: never.
    """

    devices: int | None = None
    bytes: int | None = None
    fewer_after_s: float | None = FEWER_AFTER_S


ANY = Room()


def most_devices(session: Session) -> int | None:
    """Of the workers that are there, what the largest gives to one job; None: no worker is there."""
    return max((worker.devices for worker in live_workers(session)), default=None)


def goes_to(session: Session, room: Room) -> ColumnElement[bool]:
    """Which jobs a worker with this room may take."""
    if room.devices is None:
        return _memory(room.bytes)
    whole = and_(room.devices >= ASKED, _memory(room.bytes))
    most = most_devices(session)
    if room.fewer_after_s is None or (most is not None and most > room.devices):
        return whole
    return or_(whole, and_(room.devices < ASKED, *_orphaned(room.fewer_after_s), _on_fewer(room)))


def fits_elsewhere(session: Session, job: JobRow, error: JobError) -> bool:
    """Whether the trainer's plan, which the ``error`` tells, fits a worker that is there; the job keeps it.

    Once moved for a plan, a job is not moved for the same plan again: then the memory is there, but not free.
    """
    need = error.needed_bytes
    if need is None or job.predicted_bytes == need:
        return False
    job.predicted_bytes = need
    return any(
        worker.device_bytes and worker.device_bytes >= need and worker.devices >= asked_devices(job)
        for worker in live_workers(session)
    )


def reason_of(job: JobRow, workers: Sequence[WorkerRow]) -> tuple[Misfit, str] | None:
    """Why none of the ``workers``, at least one, can have the job: a word and a sentence; None: one can."""
    asked = asked_devices(job)
    able = [worker for worker in workers if worker.devices >= asked]
    if not able:
        return "too_few_devices", _too_few(job, asked, max(one.devices for one in workers))
    need, sizes = job.predicted_bytes, [worker.device_bytes for worker in able]
    known = [size for size in sizes if size is not None]
    if need is None or len(known) < len(sizes) or max(known) >= need:
        return None
    return "no_worker_large_enough", _too_large(need, max(known), asked)


def _memory(size: int | None) -> ColumnElement[bool]:
    if size is None:
        return true()
    return or_(JobRow.predicted_bytes.is_(None), JobRow.predicted_bytes <= size)


def _orphaned(seconds: float) -> tuple[ColumnElement[bool], ...]:
    """The job has made steps, and its last attempt ended so long ago."""
    last = (AttemptRow.job_id == JobRow.id, AttemptRow.number == JobRow.attempts)
    ended = exists().where(*last, AttemptRow.ended_at <= from_now(-seconds))
    return JobRow.step > 0, ended


def _on_fewer(room: Room) -> ColumnElement[bool]:
    """A plan that is not known fits nowhere for certain, but where the memory is not known either."""
    if room.bytes is None:
        return true()
    times = case((STRATEGY == "fsdp", ASKED), else_=room.devices)
    return JobRow.predicted_bytes * times <= room.bytes * (room.devices or 1)


def _too_few(job: JobRow, asked: int, most: int) -> str:
    wait = (
        "; or wait: a job that has made steps goes on with fewer once no worker has had as many for a "
        "while, if its plan fits there"
        if job.step
        else f", or cancel the job and ask for trainer.parallel.devices: {most}"
    )
    return (
        f"The job needs {asked} devices at once and the largest worker gives {most}; start one with "
        f"`castalia worker --devices-per-job {asked}`{wait}"
    )


def _too_large(need: int, largest: int, asked: int) -> str:
    worker = "the largest worker" if asked == 1 else f"the largest worker with {asked} devices"
    each = "" if asked == 1 else " on each device"
    return (
        f"The job's plan needs {need} bytes{each} and {worker} has {largest}; start a larger "
        "worker, or ask for a shorter trainer.context_length"
    )

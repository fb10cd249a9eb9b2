"""A run's own words become rows: each line of its ``events.jsonl`` once, whatever dies in between.

The number of lines taken so far is kept on the attempt, in the transaction that writes their rows; so a
worker that is unsure whether its last write arrived sends the lines again and nothing doubles. Steps that
a resumed run walks again overwrite their metrics and add no event.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_never

from sqlalchemy import exists, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.spec.events import (
    CANARY_CODE,
    Evaluated,
    Failed,
    Finished,
    Noted,
    RunEvent,
    Saved,
    Started,
    StepDone,
    Stopped,
)
from core.store.events import add_event
from core.store.leases import Lease, Wish, held_job, wish_of
from core.store.tables import AttemptRow, JobRow, MetricRow


def record_events(
    session: Session, lease: Lease, first_line: int, events: Sequence[RunEvent]
) -> Wish | None:
    """Lines ``first_line``, ``first_line`` + 1, … of the attempt's events; returns the user's wish by now.

    Raises LeaseLost, and ValueError if lines before ``first_line`` were never taken.
    """
    job = held_job(session, lease)
    attempt = session.get_one(AttemptRow, (lease.job_id, lease.attempt), populate_existing=True)
    if first_line > attempt.lines_followed:
        raise ValueError(f"lines {attempt.lines_followed} to {first_line - 1} are missing")
    for event in events[attempt.lines_followed - first_line :]:
        _record(session, job, event)
    taken = max(attempt.lines_followed, first_line + len(events))
    session.execute(
        update(AttemptRow)
        .where(AttemptRow.job_id == lease.job_id, AttemptRow.number == lease.attempt)
        .values(lines_followed=taken)
    )
    return wish_of(job)


def _record(session: Session, job: JobRow, event: RunEvent) -> None:
    match event:
        case Started():
            _started(session, job, event)
        case StepDone():
            _step(session, job, event)
        case Evaluated():
            _evaluated(session, job, event)
        case Noted():
            _measured(job, event)
            add_event(
                session, job, event.message, code=event.code, level=event.level, data={**event.data}
            )
        case Saved() | Finished() | Stopped() | Failed():
            # These ask for something to be done outside of a transaction: `worker.supervise` does it.
            pass
        case _:
            assert_never(event)


def _measured(job: JobRow, event: Noted) -> None:
    """Keep what the canary found, for whoever asks why a job fits or does not."""
    if event.code == CANARY_CODE:
        job.measured_bytes = int(event.data["measured_bytes"])
        if "predicted_bytes" in event.data:
            job.predicted_bytes = int(event.data["predicted_bytes"])


def _started(session: Session, job: JobRow, event: Started) -> None:
    job.total_steps = event.total_steps
    job.phase = "training"
    add_event(
        session,
        job,
        event.words,
        code="job.resumed" if event.step else "training.started",
        data=event.model_dump(include={"step", "total_steps", "layers", "files"}),
    )


def _step(session: Session, job: JobRow, event: StepDone) -> None:
    _metrics(session, job.id, event.step, event.metrics)
    job.total_steps = event.total_steps
    job.estimated_finish = datetime.fromtimestamp(event.at, UTC) + timedelta(
        seconds=event.seconds_left
    )
    if event.step <= job.step:
        return
    job.step = event.step
    job.trained_tokens = event.trained_tokens
    loss = event.metrics.get("train_loss")  # a step whose loss is not finite is skipped
    told = "skipped" if loss is None else f"training loss={loss:.4f}"
    message = f"Step {event.step}/{event.total_steps}: {told}"
    _tell(session, job, event, message, "step.completed")


def _evaluated(session: Session, job: JobRow, event: Evaluated) -> None:
    job.phase = "training"
    told_before = _has_metrics(session, job.id, event.step, event.metrics)
    _metrics(session, job.id, event.step, event.metrics)
    if not told_before:
        _tell(session, job, event, f"Evaluated after step {event.step}", "eval.completed")


def _tell(
    session: Session, job: JobRow, event: StepDone | Evaluated, message: str, code: str
) -> None:
    data = {"step": event.step, "total_steps": job.total_steps, **event.metrics}
    add_event(session, job, message, code=code, type="metrics", data=data)


def _has_metrics(session: Session, job_id: str, step: int, names: Iterable[str]) -> bool:
    known = (MetricRow.job_id == job_id, MetricRow.step == step, MetricRow.name.in_(names))
    return bool(session.scalar(select(exists().where(*known))))


def _metrics(session: Session, job_id: str, step: int, metrics: dict[str, float]) -> None:
    rows = [
        {"job_id": job_id, "step": step, "name": name, "value": value}
        for name, value in metrics.items()
    ]
    if rows:
        added = insert(MetricRow).values(rows)
        session.execute(
            added.on_conflict_do_update(
                index_elements=["job_id", "step", "name"], set_={"value": added.excluded.value}
            )
        )

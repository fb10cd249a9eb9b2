"""How fast a project's earlier runs of a kind were: of the same words, on the same devices, over like rows.

Speeds are those that runs told of their steps, the first of which warms up and is left out. Attention's part
of a token's time grows with its row, so rows of another length say little: a factor of two is let pass.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, exists, func, or_, select
from sqlalchemy.orm import Session

from core.spec.job import JobSpec
from core.store.devices import STRATEGY
from core.store.tables import AttemptRow, JobRow, MetricRow

MOST_RUNS, MOST_STEPS = 20, 500
LIKE = 2.0
LOW, HIGH = 0.1, 0.9
SAME = (
    ("precision",),
    ("step",),
    ("objective", "kind"),
    ("optimizer", "kind"),
    ("adapter", "kind"),
)
"""Words of the trainer that have to be equal."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens a second of the steps of so many ``runs``: one step in ten is slower, one in ten faster."""

    low: float
    high: float
    runs: int


def earlier_speeds(
    session: Session, project_id: str, spec: JobSpec, *, device: str, row_tokens: float
) -> Speeds | None:
    """Of the newest runs on such a ``device``, as many as the spec has; or None.

    Their rows are like ones of ``row_tokens`` in the mean.
    """
    query = (
        select(JobRow.id, JobRow.step, JobRow.spec["hyperparameters"]["batch_size"].as_integer())
        .where(
            JobRow.project_id == project_id, JobRow.step > 1, *_same_words(spec), *_on(device, spec)
        )
        .order_by(JobRow.position.desc())
        .limit(MOST_RUNS)
    )
    alike = [
        (job_id, step)
        for job_id, step, batch_size in session.execute(query)
        if _is_like(_step_tokens(session, job_id, step), batch_size * row_tokens)
    ]
    if not alike:
        return None
    slow, fast = zip(*(session.execute(_spread(*run)).one() for run in alike), strict=True)
    return Speeds(min(slow), max(fast), len(alike))


def _same_words(spec: JobSpec) -> list[ColumnElement[bool]]:
    document = spec.model_dump(mode="json")["trainer"]
    same = [JobRow.spec["model"].as_string() == spec.model]
    for path in SAME:
        stored: Any = JobRow.spec["trainer"]
        asked: Any = document
        for word in path:
            stored, asked = stored[word], asked[word]
        same.append(stored.as_string() == asked)
    return same


def _on(device: str, spec: JobSpec) -> list[ColumnElement[bool]]:
    """Every attempt was there, on as many devices, over which it was spread alike."""
    parallel = spec.trainer.parallel
    of_job = AttemptRow.job_id == JobRow.id
    elsewhere = or_(
        AttemptRow.device.is_distinct_from(device), AttemptRow.devices != parallel.devices
    )
    there = [exists().where(of_job), ~exists().where(of_job, elsewhere)]
    return there if parallel.devices == 1 else [*there, STRATEGY.in_([parallel.strategy])]


def _step_tokens(session: Session, job_id: str, step: int) -> float:
    return float(session.scalar(_told(job_id, step, "tokens", func.avg(MetricRow.value))) or 0.0)


def _spread(job_id: str, step: int) -> Select[Any]:
    value = MetricRow.value
    low, high = (func.percentile_cont(share).within_group(value) for share in (LOW, HIGH))
    return _told(job_id, step, "tokens_per_second", low, high)


def _told(job_id: str, step: int, name: str, *columns: Any) -> Select[Any]:
    """Of the last steps, but never the first."""
    first = max(1, step - MOST_STEPS)
    told = (MetricRow.job_id == job_id, MetricRow.name == name, MetricRow.step > first)
    return select(*columns).where(*told)


def _is_like(tokens: float, others: float) -> bool:
    return 0 < tokens <= LIKE * others and others <= LIKE * tokens

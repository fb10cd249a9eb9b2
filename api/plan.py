"""A job's plan, asked before the job is: what memory it takes where, whether a worker has it, disk, steps."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel

from api.child import PLAN
from api.service import Service
from core.spec.job import JobSpec
from core.spec.objective import GrpoSpec
from core.spec.plan import JobPlan
from core.store.files import get_file
from core.store.keys import Principal
from core.store.speeds import earlier_speeds
from core.store.workers import live_workers

MOST_READ_BYTES = 16 * 2**20
"""A larger training file is not tokenised for a plan: its steps and tokens are left open."""


class TimeRange(BaseModel):
    """Seconds that the steps would take; loading, evaluations and checkpoints come on top.

    By the speeds of nine in ten steps of ``runs`` earlier runs of this project: of the same model, objective,
    precision, optimizer, adapter and way of stepping, on the same kind of device, over rows of like length.
    Where nothing can be said both are null, and ``reason`` says why.
    """

    low_s: float | None = None
    high_s: float | None = None
    runs: int = 0
    reason: str | None = None


class PlanView(BaseModel):
    """What a job would need. ``worker``: of those with its devices the one with the most memory."""

    object: Literal["trainer.plan"] = "trainer.plan"
    model: str
    worker: str | None
    plan: JobPlan
    time: TimeRange


def plan_view(service: Service, principal: Principal, spec: JobSpec) -> PlanView:
    """The plan of a resolved ``spec`` whose files are there. Raises ApiError."""
    with service.database.begin() as session:
        workers = live_workers(session)
        names = [name for name in (spec.training_file, spec.validation_file) if name is not None]
        files = [get_file(session, principal.project_id, name) for name in names]
    asked = spec.trainer.parallel.devices
    able = [one for one in workers if one.device_bytes is not None and one.devices >= asked]
    largest = max(able, key=lambda worker: worker.device_bytes or 0, default=None)
    order: dict[str, Any] = {
        "spec": spec.model_dump(mode="json"),
        "model": str(service.catalog.path(spec.base).resolve()),
        "device": "cpu" if largest is not None and largest.device == "cpu" else "cuda",
        "budget_bytes": None if largest is None else largest.device_bytes,
        "input_bytes": sum(file.bytes for file in files),
    }
    training: Iterable[bytes] = ()
    if files[0].bytes <= MOST_READ_BYTES:
        training = service.blobs.read(files[0].blob_id)
    found = PLAN.ask(order, service.settings.preview_limit_s, training)
    plan = JobPlan.model_validate(found)
    device = None if largest is None else largest.device
    return PlanView(
        model=spec.model,
        worker=None if largest is None else largest.name,
        plan=plan,
        time=_time(service, principal, spec, plan, device),
    )


def _time(
    service: Service, principal: Principal, spec: JobSpec, plan: JobPlan, device: str | None
) -> TimeRange:
    if device is None:
        return TimeRange(reason="no worker is there whose device is known")
    if isinstance(spec.trainer.objective, GrpoSpec):
        return TimeRange(reason="how long the answers will be is not known")
    if plan.steps is None or plan.tokens is None:
        return TimeRange(reason="the training file was not read, so its tokens are not known")
    row_tokens = plan.tokens / plan.steps / spec.hyperparameters.batch_size
    with service.database.begin() as session:
        speeds = earlier_speeds(
            session, principal.project_id, spec, device=device, row_tokens=row_tokens
        )
    if speeds is None:
        return TimeRange(reason=f"no earlier run of this kind on {device} is known")
    return TimeRange(
        low_s=plan.tokens / speeds.high, high_s=plan.tokens / speeds.low, runs=speeds.runs
    )

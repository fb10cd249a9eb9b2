"""A job's plan, asked before the job is: what memory it takes where, whether a worker has it, disk, steps."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel

from api.child import PLAN
from api.service import Service
from core.spec.job import JobSpec
from core.spec.plan import JobPlan
from core.store.files import get_file
from core.store.keys import Principal
from core.store.workers import live_workers

MOST_READ_BYTES = 16 * 2**20
"""A larger training file is not tokenised for a plan: its steps and tokens are left open."""


class PlanView(BaseModel):
    """What a job would need. ``worker``: the one with the most memory, into which it should fit."""

    object: Literal["trainer.plan"] = "trainer.plan"
    model: str
    worker: str | None
    plan: JobPlan


def plan_view(service: Service, principal: Principal, spec: JobSpec) -> PlanView:
    """The plan of a resolved ``spec`` whose files are there. Raises ApiError."""
    with service.database.begin() as session:
        workers = live_workers(session)
        names = [name for name in (spec.training_file, spec.validation_file) if name is not None]
        files = [get_file(session, principal.project_id, name) for name in names]
    able = [worker for worker in workers if worker.device_bytes is not None]
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
    return PlanView(
        model=spec.model,
        worker=None if largest is None else largest.name,
        plan=JobPlan.model_validate(found),
    )

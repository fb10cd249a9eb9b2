"""How many devices a job asked for, in its row and in SQL; and the same job on fewer."""

from sqlalchemy import ColumnElement, func

from core.spec.job import JobSpec
from core.store.tables import JobRow

_PARALLEL = JobRow.spec["trainer"]["parallel"]
ASKED: ColumnElement[int] = func.coalesce(_PARALLEL["devices"].as_integer(), 1)
"""A job that was taken before there could be several has one."""
STRATEGY: ColumnElement[str] = func.coalesce(_PARALLEL["strategy"].as_string(), "fsdp")


def asked_devices(job: JobRow) -> int:
    """How many devices the job was submitted for."""
    return int(job.spec["trainer"].get("parallel", {}).get("devices", 1))


def with_devices(spec: JobSpec, devices: int | None) -> JobSpec:
    """The spec for a worker that gives so many at the most; None: as it is."""
    parallel = spec.trainer.parallel
    if devices is None or parallel.devices <= devices:
        return spec
    return spec.on_devices(parallel.model_copy(update={"devices": devices}))

"""A job for more devices than any worker gives is refused; where no worker is there, it waits for one."""

from api.errors import refusal
from core.spec.job import JobSpec
from core.spec.problems import Problem
from core.spec.spreading import DEVICES
from core.store.database import Session
from core.store.placement import most_devices


def check_devices(session: Session, spec: JobSpec) -> None:
    """Raises ApiError, with what would fit."""
    asked, most = spec.trainer.parallel.devices, most_devices(session)
    if most is None or asked <= most:
        return
    message = (
        f"{asked} are asked for, and the largest worker gives {most} to one job; use devices: {most}, or "
        f"start a worker with `castalia worker --devices-per-job {asked}`"
    )
    raise refusal([Problem(DEVICES, message, "too_few_devices")])

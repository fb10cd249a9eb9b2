"""What a worker has to say of a run that the run does not say itself. Each remark is guarded by the lease."""

from sqlalchemy.orm import Session

from core.spec.run import checkpoint_name
from core.store.events import add_event
from core.store.leases import Lease, held_job


def tell_stalled(session: Session, lease: Lease, *, step: int, seconds: float) -> None:
    """The run has said nothing for so long that it is about to be ended. Raises LeaseLost."""
    job = held_job(session, lease)
    job.phase = "stalled"
    add_event(
        session,
        job,
        f"Nothing was heard of the run for {seconds:.0f} s after step {step}; it is ended",
        code="job.stalled",
        level="warn",
        data={"step": step, "seconds": round(seconds, 1)},
    )


def tell_skipped(session: Session, lease: Lease, *, step: int) -> None:
    """A checkpoint was dropped by the run before it could be stored. Raises LeaseLost."""
    add_event(
        session,
        held_job(session, lease),
        f"The checkpoint at step {step} was dropped before it was stored; a later one will be",
        code="checkpoint.skipped",
        level="warn",
        data={"step": step},
    )


def tell_damaged(session: Session, lease: Lease, *, step: int, what: str, instead: int) -> None:
    """A stored checkpoint is not what was saved, and the run goes on from an older one. Raises LeaseLost."""
    add_event(
        session,
        held_job(session, lease),
        f"The stored checkpoint of step {step} is damaged: {what}; the run goes on from step {instead}",
        code="checkpoint.damaged",
        level="warn",
        data={"checkpoint": checkpoint_name(step), "instead": checkpoint_name(instead)},
    )

"""Tuned models: what jobs leave behind, named as OpenAI names them, and who may use them.

    ft:{base}:{organisation}:{suffix}:{short id}    the last checkpoint of a job that succeeded: its result
    … :ckpt-step-{n}                                a checkpoint that is kept

A project uses its own models, and those whose checkpoint was shared with it; only its own can it delete.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import ColumnElement, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from core.store.errors import Conflict, NotFound
from core.store.jobs import TERMINAL
from core.store.tables import CheckpointRow, FileRow, JobRow, PermissionRow, ProjectRow

SHORT_ID_CHARACTERS = 8
TUNED_PREFIX = "ft:"
STEP = re.compile(r":ckpt-step-(\d{1,18})$")


class ModelInUse(Conflict):
    """A model that cannot go now: a job may still read it, or write it anew."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "model_in_use")


@dataclass(frozen=True, slots=True)
class TunedModel:
    """A name that was found: the job that made the model, and the checkpoint that holds its weights."""

    name: str
    job: JobRow
    checkpoint: CheckpointRow


def tuned_model_name(session: Session, job: JobRow) -> str:
    """The name of a job's result, known before the job is done; of a tuned base its own base is named."""
    if job.fine_tuned_model is not None:
        return job.fine_tuned_model
    organization = session.get_one(ProjectRow, job.project_id).organization_id
    short = job.id.removeprefix("ftjob-")[:SHORT_ID_CHARACTERS]
    base = job.spec.get("base_model") or job.spec["model"]
    return f"{TUNED_PREFIX}{base}:{organization}:{job.suffix or ''}:{short}"


def tuned_models(session: Session, project_id: str) -> Sequence[JobRow]:
    """The jobs of a project whose models can be used, newest first."""
    query = (
        select(JobRow)
        .where(
            JobRow.project_id == project_id,
            JobRow.fine_tuned_model.is_not(None),
            JobRow.model_deleted_at.is_(None),
        )
        .order_by(JobRow.position.desc())
    )
    return session.scalars(query).all()


def find_model(
    session: Session, project_id: str, name: str, *, lock: Literal["share", "update"] | None = None
) -> TunedModel:
    """A model of the project's own or shared with it. Raises NotFound.

    ``lock``: of its checkpoint's row, to the end of the transaction.
    """
    return _found(session, name, or_(_owned(project_id), _shared(project_id)), lock)


def find_own_model(
    session: Session, project_id: str, name: str, *, lock: Literal["share", "update"] | None = None
) -> TunedModel:
    """A model of the project's own. Raises NotFound."""
    return _found(session, name, _owned(project_id), lock)


def hold_model(session: Session, project_id: str, name: str) -> TunedModel:
    """The model that a job is about to start from; it cannot be deleted before the transaction ends.

    Raises NotFound, and Conflict while the job that makes it goes on: then it may be replaced any time.
    """
    model = find_model(session, project_id, name, lock="share")
    require_ended(model)
    return model


def require_ended(model: TunedModel) -> None:
    """Raises Conflict unless the model's own job has ended."""
    if model.job.status not in TERMINAL:
        raise Conflict(
            f"the model '{model.name}' belongs to job '{model.job.id}', which is "
            f"{model.job.status}; wait for its end, or cancel it",
            "model_not_ready",
        )


def delete_model(session: Session, project_id: str, name: str) -> list[str]:
    """Forget a model of the project's own; returns the blobs of its files, to be deleted after the commit.

    A job's result and its last checkpoint are one model by two names. Raises NotFound, and ModelInUse while
    its own job goes on, or another that starts from it.
    """
    model = find_own_model(session, project_id, name, lock="update")
    job, checkpoint = model.job, model.checkpoint
    if job.status not in TERMINAL:
        raise ModelInUse(f"job '{job.id}', which makes '{name}', is {job.status}; cancel it first")
    stem = tuned_model_name(session, job)
    names = [f"{stem}:ckpt-step-{checkpoint.step}"]
    last = select(func.max(CheckpointRow.step)).where(CheckpointRow.job_id == job.id)
    if job.status == "succeeded" and session.scalar(last) == checkpoint.step:
        names.append(stem)
        job.model_deleted_at = func.now()
    _refuse_if_used(session, names)
    blobs = select(FileRow.blob_id).where(FileRow.checkpoint_id == checkpoint.id)
    blob_ids = list(session.scalars(blobs))
    session.execute(delete(CheckpointRow).where(CheckpointRow.id == checkpoint.id))
    return blob_ids


def _refuse_if_used(session: Session, names: Sequence[str]) -> None:
    users = select(JobRow.id).where(
        JobRow.status.not_in(TERMINAL), JobRow.spec["model"].as_string().in_(names)
    )
    count = session.scalar(select(func.count()).select_from(users.subquery()))
    if count:
        raise ModelInUse(f"{count} jobs that have not ended start from '{names[-1]}'")


def _found(
    session: Session,
    name: str,
    allowed: ColumnElement[bool],
    lock: Literal["share", "update"] | None,
) -> TunedModel:
    step = STEP.search(name)
    stem = name if step is None else name[: step.start()]
    short = stem.rpartition(":")[2]
    if not (short and stem.startswith(TUNED_PREFIX)):
        raise NotFound("model", name)
    of_job = or_(
        JobRow.fine_tuned_model == stem, JobRow.id.startswith(f"ftjob-{short}", autoescape=True)
    )
    query = (
        select(JobRow, CheckpointRow)
        .join(CheckpointRow, CheckpointRow.job_id == JobRow.id)
        .where(allowed, of_job)
        .order_by(CheckpointRow.step.desc())
    )
    if step is None:
        query = query.where(JobRow.status == "succeeded", JobRow.model_deleted_at.is_(None))
    else:
        query = query.where(CheckpointRow.step == int(step[1]))
    if lock is not None:
        query = query.with_for_update(read=lock == "share", of=CheckpointRow)
    for job, checkpoint in session.execute(query):
        if tuned_model_name(session, job) == stem:
            return TunedModel(name, job, checkpoint)
    raise NotFound("model", name)


def _owned(project_id: str) -> ColumnElement[bool]:
    return JobRow.project_id == project_id


def _shared(project_id: str) -> ColumnElement[bool]:
    return exists().where(
        PermissionRow.checkpoint_id == CheckpointRow.id, PermissionRow.project_id == project_id
    )

"""Tuned models: the results of jobs that succeeded, named as OpenAI names them."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.store.errors import NotFound
from core.store.tables import JobRow, ProjectRow

SHORT_ID_CHARACTERS = 8


def tuned_model_name(session: Session, job: JobRow) -> str:
    """``ft:{base}:{organisation}:{suffix}:{short id}``, known before the job is done."""
    if job.fine_tuned_model is not None:
        return job.fine_tuned_model
    organization = session.get_one(ProjectRow, job.project_id).organization_id
    short = job.id.removeprefix("ftjob-")[:SHORT_ID_CHARACTERS]
    return f"ft:{job.spec['model']}:{organization}:{job.suffix or ''}:{short}"


def tuned_models(session: Session, project_id: str) -> Sequence[JobRow]:
    """The jobs of a project whose models can be used, newest first."""
    query = (
        select(JobRow)
        .where(JobRow.project_id == project_id, JobRow.fine_tuned_model.is_not(None))
        .order_by(JobRow.position.desc())
    )
    return session.scalars(query).all()


def tuned_model(session: Session, project_id: str, name: str) -> JobRow:
    """The job that made the model ``name``. Raises NotFound."""
    query = select(JobRow).where(JobRow.project_id == project_id, JobRow.fine_tuned_model == name)
    row = session.scalar(query)
    if row is None:
        raise NotFound("model", name)
    return row

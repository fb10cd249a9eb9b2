"""A model as the API shows it."""

from typing import Literal, Self

from pydantic import BaseModel

from api.views.shape import unix
from core.store.models import TunedModel
from core.store.tables import JobRow


class ModelView(BaseModel):
    """OpenAI's model object; ``context_length`` is ours: the most that the model was made for."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    context_length: int | None = None

    @classmethod
    def of_job(cls, job: JobRow) -> Self:
        """The result of a job that succeeded."""
        assert job.fine_tuned_model is not None
        return cls(
            id=job.fine_tuned_model,
            created=unix(job.finished_at) or 0,
            owned_by=job.project_id,
            context_length=job.spec["trainer"]["context_length"],
        )

    @classmethod
    def of_tuned(cls, model: TunedModel) -> Self:
        """A tuned model or a checkpoint, under the name by which it was asked for."""
        return cls(
            id=model.name,
            created=unix(model.checkpoint.created_at) or 0,
            owned_by=model.job.project_id,
            context_length=model.job.spec["trainer"]["context_length"],
        )

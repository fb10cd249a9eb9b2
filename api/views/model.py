"""A model as the API shows it."""

from collections.abc import Callable, Sequence
from typing import Literal, Self

from pydantic import BaseModel

from api.views.shape import unix
from core.spec.limits import ModelLimit
from core.store.jobs import spec_of
from core.store.models import TunedModel
from core.store.tables import JobRow, WorkerRow


class TrainerLimitsView(BaseModel):
    """What can be trained of a model on one such device of these workers; a job can have ``devices``."""

    device: str
    device_bytes: int
    devices: int
    workers: int
    limits: list[ModelLimit]


LimitsOf = Callable[[str], list[TrainerLimitsView]]


def limits_on(workers: Sequence[WorkerRow]) -> LimitsOf:
    """What these workers have told, by the name of a base model; like devices are told once."""

    def of_model(name: str) -> list[TrainerLimitsView]:
        kinds: dict[tuple[str, int, int], TrainerLimitsView] = {}
        for worker in workers:
            limits = (worker.limits or {}).get(name)
            if limits is None or worker.device_bytes is None:
                continue
            key = (worker.device, worker.device_bytes, worker.devices)
            if key in kinds:
                kinds[key].workers += 1
            else:
                kinds[key] = TrainerLimitsView(
                    device=key[0], device_bytes=key[1], devices=key[2], workers=1, limits=limits
                )
        return list(kinds.values())

    return of_model


class ModelView(BaseModel):
    """OpenAI's model object; ours are ``context_length``, the most that the model was made for, and limits.

    ``trainer_limits``: of each kind of worker that is there and has told its own.
    """

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    context_length: int | None = None
    trainer_limits: list[TrainerLimitsView] = []

    @classmethod
    def of_job(cls, job: JobRow, limits: LimitsOf) -> Self:
        """The result of a job that succeeded."""
        assert job.fine_tuned_model is not None
        return cls(
            id=job.fine_tuned_model,
            created=unix(job.finished_at) or 0,
            owned_by=job.project_id,
            context_length=job.spec["trainer"]["context_length"],
            trainer_limits=limits(spec_of(job).base),
        )

    @classmethod
    def of_tuned(cls, model: TunedModel, limits: LimitsOf) -> Self:
        """A tuned model or a checkpoint, under the name by which it was asked for."""
        return cls(
            id=model.name,
            created=unix(model.checkpoint.created_at) or 0,
            owned_by=model.job.project_id,
            context_length=model.job.spec["trainer"]["context_length"],
            trainer_limits=limits(spec_of(model.job).base),
        )

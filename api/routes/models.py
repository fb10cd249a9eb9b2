"""/v1/models: what can be trained, and what was."""

import logging
from collections.abc import Iterator

from fastapi import APIRouter

from api.auth import ReadDep
from api.errors import ApiError
from api.service import Service, ServiceDep
from api.views.model import ModelView
from api.views.shape import ListView, unix
from core.models.catalog import UnknownModel, UnreadableModel
from core.store.models import tuned_model, tuned_models
from core.store.tables import JobRow

log = logging.getLogger(__name__)

router = APIRouter(prefix="/models", tags=["Models"])


@router.get("")
def list_(service: ServiceDep, principal: ReadDep) -> ListView[ModelView]:
    """Base models first, then the project's tuned models."""
    with service.database.begin() as session:
        tuned = tuned_models(session, principal.project_id)
    return ListView(data=[*_bases(service), *map(_tuned, tuned)], has_more=False)


@router.get("/{model:path}")
def retrieve(service: ServiceDep, principal: ReadDep, model: str) -> ModelView:
    """One model. Names hold slashes and colons."""
    try:
        return _base(service, model)
    except UnreadableModel as error:
        raise ApiError(400, str(error), code="model_not_trainable", param="model") from None
    except UnknownModel:
        with service.database.begin() as session:
            return _tuned(tuned_model(session, principal.project_id, model))


def _bases(service: Service) -> Iterator[ModelView]:
    for name in service.catalog.names():
        try:
            yield _base(service, name)
        except UnreadableModel as error:
            log.warning("not listed: %s", error)


def _base(service: Service, name: str) -> ModelView:
    facts = service.catalog.facts(name)
    created = int((service.catalog.path(name) / "config.json").stat().st_mtime)
    return ModelView(
        id=name, created=created, owned_by="castalia", context_length=facts.longest_context
    )


def _tuned(job: JobRow) -> ModelView:
    assert job.fine_tuned_model is not None
    return ModelView(
        id=job.fine_tuned_model,
        created=unix(job.finished_at) or 0,
        owned_by=job.project_id,
        context_length=job.spec["trainer"]["context_length"],
    )

"""/v1/models: what can be trained, and what was."""

import logging
from collections.abc import Iterator

from fastapi import APIRouter

from api.auth import ReadDep, SubmitDep
from api.bases import refused_model
from api.errors import ApiError
from api.service import Service, ServiceDep
from api.views.model import LimitsOf, ModelView, limits_on
from api.views.shape import DeletedView, ListView
from core.models.catalog import ModelUnusable, UnknownModel
from core.store.models import delete_model, find_model, tuned_models
from core.store.workers import live_workers

log = logging.getLogger(__name__)

router = APIRouter(prefix="/models", tags=["Models"])


@router.get("")
def list_(service: ServiceDep, principal: ReadDep) -> ListView[ModelView]:
    """Base models first, then the project's tuned models."""
    with service.database.begin() as session:
        tuned = tuned_models(session, principal.project_id)
        limits = limits_on(live_workers(session))
    views = [*_bases(service, limits), *(ModelView.of_job(job, limits) for job in tuned)]
    return ListView(data=views, has_more=False)


@router.get("/{model:path}")
def retrieve(service: ServiceDep, principal: ReadDep, model: str) -> ModelView:
    """One model, also a checkpoint, of the project's own or shared with it. Names hold slashes and colons."""
    with service.database.begin() as session:
        limits = limits_on(live_workers(session))
    try:
        return _base(service, model, limits)
    except UnknownModel:
        with service.database.begin() as session:
            found = find_model(session, principal.project_id, model)
        return ModelView.of_tuned(found, limits)
    except ModelUnusable as error:
        raise refused_model(error) from None


@router.delete("/{model:path}", responses={409: {}})
def delete(service: ServiceDep, principal: SubmitDep, model: str) -> DeletedView:
    """Forget a tuned model or checkpoint of the project's own, and its files."""
    if model in service.catalog.names():
        raise ApiError(
            403,
            f"'{model}' is a base model, which belongs to whoever runs the service",
            code="model_not_deletable",
            param="model",
            hint="only tuned models and their checkpoints can be deleted",
        )
    with service.database.begin() as session:
        blob_ids = delete_model(session, principal.project_id, model)
    for blob_id in blob_ids:
        service.blobs.delete(blob_id)
    return DeletedView(id=model, object="model")


def _bases(service: Service, limits: LimitsOf) -> Iterator[ModelView]:
    for name in service.catalog.names():
        try:
            yield _base(service, name, limits)
        except ModelUnusable as error:
            log.warning("not listed: %s", error)


def _base(service: Service, name: str, limits: LimitsOf) -> ModelView:
    facts = service.catalog.facts(name)
    created = int((service.catalog.path(name) / "config.json").stat().st_mtime)
    return ModelView(
        id=name,
        created=created,
        owned_by="castalia",
        context_length=facts.longest_context,
        trainer_limits=limits(name),
    )

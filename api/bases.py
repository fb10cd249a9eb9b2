"""What a job can start from: a base model of the catalog, or a tuned model or checkpoint of a project."""

from dataclasses import dataclass
from pathlib import Path

from api.errors import ApiError
from api.service import Service
from core.models.catalog import ModelUnusable, UnknownModel
from core.spec.model import ModelFacts
from core.store.database import Session
from core.store.errors import Conflict, NotFound
from core.store.jobs import spec_of
from core.store.keys import Principal
from core.store.models import TUNED_PREFIX, TunedModel, find_model, hold_model, require_ended
from core.store.weights import whole_model


@dataclass(frozen=True, slots=True)
class Base:
    """A model that was found; ``base_model``: of a tuned one the base that it was made from."""

    facts: ModelFacts
    base_model: str | None = None


class Bases:
    """The models that one project can start from."""

    def __init__(self, service: Service, principal: Principal) -> None:
        self._service = service
        self._project_id = principal.project_id

    def find(self, name: str) -> Base:
        """What a spec must know of a model. Raises ApiError."""
        base = self._base_of(name)
        try:
            facts = self._service.catalog.facts(base or name)
        except ModelUnusable as error:
            raise refused_model(error) from None
        if base is None:
            return Base(facts)
        return Base(facts.model_copy(update={"name": name}), base)

    def folder(self, name: str) -> Path:
        """Where the configuration and tokenizer of a model lie. Raises ApiError."""
        try:
            return self._service.catalog.path(self._base_of(name) or name)
        except ModelUnusable as error:
            raise refused_model(error) from None

    def _base_of(self, name: str) -> str | None:
        if not name.startswith(TUNED_PREFIX):
            return None
        with self._service.database.begin() as session:
            try:
                model = find_model(session, self._project_id, name)
                require_ended(model)
                whole_model(session, model)
            except (NotFound, Conflict) as error:
                raise _refused(error) from None
        return base_of(model)


def base_of(model: TunedModel) -> str:
    """The name of the base model from which a tuned one was made, through however many jobs."""
    return spec_of(model.job).base


def hold_base(session: Session, principal: Principal, name: str) -> None:
    """Keep a tuned model from being deleted until the job that starts from it is made. Raises ApiError."""
    if name.startswith(TUNED_PREFIX):
        try:
            hold_model(session, principal.project_id, name)
        except (NotFound, Conflict) as error:
            raise _refused(error) from None


def refused_model(error: ModelUnusable) -> ApiError:
    """The answer to a request for a model that cannot be trained."""
    status, code = (400, "model_not_trainable")
    if isinstance(error, UnknownModel):
        status, code = (404, "model_not_found")
    return ApiError(status, str(error), code=code, param="model")


def _refused(error: NotFound | Conflict) -> ApiError:
    if isinstance(error, NotFound):
        return ApiError(404, str(error), code="model_not_found", param="model")
    return ApiError(400, str(error), code=error.code, param="model")

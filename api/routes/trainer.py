"""/v1/trainer: our own corner, beside OpenAI's surface."""

from typing import Any

from fastapi import APIRouter

from api.auth import SubmitDep
from api.bases import Bases
from api.child import PREVIEW
from api.devices import check_devices
from api.errors import ApiError
from api.job_files import check_files
from api.plan import PlanView, plan_view
from api.requests import CreateJob, PreviewRow, TrainerBody
from api.service import ServiceDep
from api.views.preview import PreviewView
from core.store.errors import NotFound
from core.store.files import get_file

router = APIRouter(prefix="/trainer", tags=["Trainer"])


@router.get("/schema")
def schema() -> dict[str, Any]:
    """The JSON Schema of the `trainer` object, with every default and bound."""
    return TrainerBody.model_json_schema()


@router.post("/plan")
def plan(service: ServiceDep, principal: SubmitDep, body: CreateJob) -> PlanView:
    """What a job would need: memory by component, the longest context, disk, steps. Takes seconds."""
    spec = body.job_spec(Bases(service, principal))
    with service.database.begin() as session:
        check_files(session, principal, spec)
        check_devices(session, spec)
    return plan_view(service, principal, spec)


@router.post("/preview")
def preview(service: ServiceDep, principal: SubmitDep, body: PreviewRow) -> PreviewView:
    """A row in the model's tokens, with those that would be trained marked. Takes seconds."""
    folder = Bases(service, principal).folder(body.model)
    with service.database.begin() as session:
        try:
            file = get_file(session, principal.project_id, body.training_file)
        except NotFound as error:
            raise ApiError(400, str(error), code="file_not_found", param="training_file") from None
    order = {"model": str(folder.resolve()), "line": body.line, **body.asked_for()}
    found = PREVIEW.ask(order, service.settings.preview_limit_s, service.blobs.read(file.blob_id))
    return PreviewView(model=body.model, training_file=body.training_file, **found)

"""/v1/fine_tuning/jobs: create, list, read, pause, resume, cancel, and the checkpoints of a run."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from api.auth import ReadDep, SubmitDep
from api.bases import Bases, hold_base
from api.devices import check_devices
from api.job_files import check_files
from api.plan import PlanView, plan_view
from api.replay import SenderDep
from api.requests import CreateJob
from api.service import Service, ServiceDep
from api.views.job import CheckpointView, JobView
from api.views.shape import ListView, list_of
from core.data.file_check import unfit_file
from core.spec.bell import TRAIN_TASK
from core.store.checkpoints import checkpoint_files, list_checkpoints
from core.store.database import Session
from core.store.jobs import create_job, get_job, list_jobs
from core.store.keys import Principal
from core.store.models import tuned_model_name
from core.store.queue import waiting
from core.store.replays import remember, replayed_job
from core.store.tables import JobRow
from core.store.wishes import cancel_job, pause_job, resume_job

router = APIRouter(prefix="/fine_tuning/jobs", tags=["Fine-tuning"])

Limit = Annotated[int, Query(ge=1)]
METADATA_PREFIX = "metadata["


@router.post("")
def create(
    service: ServiceDep,
    principal: SubmitDep,
    body: CreateJob,
    sender: SenderDep,
    response: Response,
) -> JobView | PlanView:
    """Ask for a fine-tuning job, or with `trainer.dry_run` for its plan alone.

    The row is committed before the queue is told. The same request again, by its Idempotency-Key or as a
    client's own retry, is answered with the same job.
    """
    spec, request = body.job_spec(Bases(service, principal)), sender.sent(body)
    if body.trainer.dry_run:
        with service.database.begin() as session:
            check_files(session, principal, spec)
            check_devices(session, spec)
        return plan_view(service, principal, spec)
    with service.database.begin() as session:
        row = replayed_job(session, request)
        if row is not None:
            response.headers["idempotent-replayed"] = "true"
            return _view(service, session, row, principal)
        check_files(session, principal, spec)
        check_devices(session, spec)
        hold_base(session, principal, spec.model)
        row = create_job(
            session,
            principal.project_id,
            spec,
            unfit=unfit_file,
            suffix=body.suffix,
            tags=dict(body.metadata or {}),
            quotas=service.settings.quotas,
        )
        remember(session, request, row)
        view = _view(service, session, row, principal)
    if row.status == "queued":
        service.doorbell.ring(TRAIN_TASK, row.id)
    return view


@router.get("")
def list_(
    service: ServiceDep,
    principal: ReadDep,
    request: Request,
    after: str | None = None,
    limit: Limit = 20,
) -> ListView[JobView]:
    """The project's jobs, newest first; ``metadata[key]=value`` filters, ``metadata=null``: none."""
    with service.database.read() as session:
        page = list_jobs(
            session,
            principal.project_id,
            tags=_tags_asked_for(request),
            after=after,
            limit=min(limit, service.settings.max_page),
        )
        places = waiting(session, page.rows, service.settings.quotas)
    views = [JobView.of(row, principal, places.get(row.id)) for row in page.rows]
    return list_of(views, page.has_more)


@router.get("/{job_id}")
def retrieve(service: ServiceDep, principal: ReadDep, job_id: str) -> JobView:
    """One job."""
    with service.database.read() as session:
        row = get_job(session, principal.project_id, job_id)
        return _view(service, session, row, principal)


@router.post("/{job_id}/cancel")
def cancel(service: ServiceDep, principal: SubmitDep, job_id: str) -> JobView:
    """Stop a job: at once if it waits, after its step if it runs. Repeating it changes nothing."""
    with service.database.begin() as session:
        row = cancel_job(session, principal.project_id, job_id)
        return _view(service, session, row, principal)


@router.post("/{job_id}/pause")
def pause(service: ServiceDep, principal: SubmitDep, job_id: str) -> JobView:
    """Let a job rest: at once if it waits, after its step and a checkpoint if it runs."""
    with service.database.begin() as session:
        row = pause_job(session, principal.project_id, job_id)
        return _view(service, session, row, principal)


@router.post("/{job_id}/resume")
def resume(service: ServiceDep, principal: SubmitDep, job_id: str) -> JobView:
    """Queue a paused job again; it goes on from its last checkpoint, maybe on another worker."""
    with service.database.begin() as session:
        quotas = service.settings.quotas
        row = resume_job(session, principal.project_id, job_id, unfit_file, quotas)
        view = _view(service, session, row, principal)
    if row.status == "queued":
        service.doorbell.ring(TRAIN_TASK, row.id)
    return view


@router.get("/{job_id}/checkpoints")
def checkpoints(
    service: ServiceDep,
    principal: ReadDep,
    job_id: str,
    after: str | None = None,
    limit: Limit = 10,
) -> ListView[CheckpointView]:
    """The kept checkpoints with their files, newest first."""
    with service.database.read() as session:
        job = get_job(session, principal.project_id, job_id)
        page = list_checkpoints(
            session, job, after=after, limit=min(limit, service.settings.max_page)
        )
        files = checkpoint_files(session, [row.id for row in page.rows])
        model = tuned_model_name(session, job)
    views = [CheckpointView.of(row, files[row.id], model) for row in page.rows]
    return list_of(views, page.has_more)


def _view(service: Service, session: Session, row: JobRow, principal: Principal) -> JobView:
    places = waiting(session, [row], service.settings.quotas)
    return JobView.of(row, principal, places.get(row.id))


def _tags_asked_for(request: Request) -> dict[str, str] | None:
    query = request.query_params
    if query.get("metadata") == "null":
        return {}
    tags = {
        key.removeprefix(METADATA_PREFIX).removesuffix("]"): value
        for key, value in query.items()
        if key.startswith(METADATA_PREFIX)
    }
    return tags or None

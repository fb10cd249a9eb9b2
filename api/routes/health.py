"""/healthz, /readyz and /metrics: for whoever runs the service."""

from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Gauge,
    generate_latest,
)

from api.service import Service, ServiceDep
from api.views.health import LiveView, ReadyView
from core.store.database import DatabaseDown
from core.store.jobs import count_by_status
from migrations import is_current

router = APIRouter(tags=["Operations"])

State = Literal["ok", "unavailable"]
DatabaseState = Literal["ok", "needs migration", "unavailable"]


@router.get("/healthz")
def healthz() -> LiveView:
    """The process lives."""
    return LiveView()


@router.get("/readyz", responses={503: {"model": ReadyView, "description": "Not ready."}})
def readyz(service: ServiceDep, response: Response) -> ReadyView:
    """Whether requests can be served. Without a broker they can: the sweep rings when it is back."""
    database = _database_state(service)
    broker: State = "ok" if service.doorbell.reachable() else "unavailable"
    if database != "ok":
        response.status_code = 503
    status: State = "ok" if database == "ok" else "unavailable"
    return ReadyView(status=status, database=database, broker=broker)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def metrics(service: ServiceDep) -> Response:
    """Prometheus' text format: requests, latencies and, if the database answers, jobs by status."""
    jobs = CollectorRegistry()
    gauge = Gauge("castalia_jobs", "Jobs by status.", ["status"], registry=jobs)
    for status, count in _jobs_by_status(service).items():
        gauge.labels(status).set(count)
    body = generate_latest(REGISTRY) + generate_latest(jobs)
    return Response(body, media_type=CONTENT_TYPE_LATEST)


def _jobs_by_status(service: Service) -> dict[str, int]:
    try:
        with service.database.begin() as session:
            return count_by_status(session)
    except DatabaseDown:
        return {}


def _database_state(service: Service) -> DatabaseState:
    try:
        return "ok" if is_current(service.database.engine) else "needs migration"
    except DatabaseDown:
        return "unavailable"

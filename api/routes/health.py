"""/healthz, /readyz and /metrics: for whoever runs the service."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Gauge,
    generate_latest,
)

from api.service import Service, ServiceDep
from core.store.database import DatabaseDown
from core.store.jobs import count_by_status
from migrations import is_current

router = APIRouter(tags=["Operations"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"description": "Not ready to take requests."}})
def readyz(service: ServiceDep) -> JSONResponse:
    """Whether requests can be served. Without a broker they can: the sweep rings when it is back."""
    database = _database_state(service)
    broker = "ok" if service.doorbell.reachable() else "unavailable"
    ready = database == "ok"
    body = {"status": "ok" if ready else "unavailable", "database": database, "broker": broker}
    return JSONResponse(body, 200 if ready else 503)


@router.get("/metrics", response_class=Response)
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


def _database_state(service: Service) -> str:
    try:
        return "ok" if is_current(service.database.engine) else "needs migration"
    except DatabaseDown:
        return "unavailable"

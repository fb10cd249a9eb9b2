"""The application: routes, errors, middleware. `uvicorn --factory api.app:create_app` serves it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from api.audit import Audit
from api.errors import install_error_handlers
from api.middleware import BodyLimit, Stamp
from api.routes import (
    chat,
    events,
    files,
    graders,
    health,
    jobs,
    models,
    permissions,
    trainer,
    uploads,
    webhooks,
)
from api.service import Service
from api.settings import ApiSettings
from api.views.error import ErrorView

PREFIX = "/v1"
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorView, "description": "What was sent cannot be carried out."},
    401: {"model": ErrorView, "description": "No valid key."},
    403: {"model": ErrorView, "description": "The key lacks a scope."},
    404: {"model": ErrorView, "description": "No such thing in this project."},
    413: {"model": ErrorView, "description": "The body is too large."},
    429: {"model": ErrorView, "description": "A quota is used up."},
    503: {"model": ErrorView, "description": "The database cannot be reached."},
}


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """The application for these settings, or for those of the environment."""
    settings = settings or ApiSettings()
    service = Service.open(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.database.close()

    app = FastAPI(
        title="Castalia",
        summary="Training as a service for long contexts, with OpenAI's fine-tuning API.",
        version="0.1.0",
        license_info={"name": "Apache-2.0"},
        lifespan=lifespan,
    )
    app.state.service = service
    install_error_handlers(app)
    rooms = (chat, events, files, graders, jobs, models, permissions, trainer, uploads, webhooks)
    for room in rooms:
        app.include_router(room.router, prefix=PREFIX, responses=ERRORS)
    app.include_router(health.router)
    app.add_middleware(
        BodyLimit,
        json_bytes=settings.max_body_bytes,
        upload_bytes=settings.max_upload_bytes,
        upload_paths=(f"{PREFIX}/files", f"{PREFIX}/uploads/"),
    )
    app.add_middleware(Stamp)
    app.add_middleware(Audit, database=service.database, prefix=PREFIX)
    return app

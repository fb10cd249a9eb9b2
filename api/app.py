"""The application: routes, errors, middleware. `castalia api` serves it, as `api.serve` says."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from api.audit import Audit
from api.description import DescribedApi
from api.door import Door
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

PREFIX = "/v1"
OPEN_PATHS = frozenset({f"{PREFIX}/trainer/schema"})
"""What is told to everybody below the prefix: the same on every installation."""
FORM_LIMITS: Any = {"max_files": 1, "max_fields": 8, "max_part_size": 16 * 1024}
"""A file goes to the disk, a field into memory: neither may come by the thousand."""


def create_app(settings: ApiSettings | None = None) -> FastAPI:
    """The application for these settings, or for those of the environment."""
    settings = settings or ApiSettings()
    service = Service.open(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = DescribedApi(
        title="Castalia",
        summary="Training as a service for long contexts, with OpenAI's fine-tuning API.",
        version="0.1.0",
        license_info={"name": "Apache-2.0"},
        lifespan=lifespan,
        docs_url="/docs" if settings.docs_pages else None,
        redoc_url="/redoc" if settings.docs_pages else None,
        # A redirect would bear the Host that the client sent.
        redirect_slashes=False,
        form_limits=FORM_LIMITS,
    )
    app.state.service = service
    install_error_handlers(app)
    for room in (
        chat, events, files, graders, jobs, models, permissions, trainer, uploads, webhooks,
    ):  # fmt: skip
        app.include_router(room.router, prefix=PREFIX)
    app.include_router(health.router)
    app.add_middleware(
        BodyLimit,
        json_bytes=settings.max_body_bytes,
        upload_bytes=settings.max_upload_bytes,
        upload_paths=(f"{PREFIX}/files", f"{PREFIX}/uploads/"),
    )
    app.add_middleware(Door, service=service, prefix=PREFIX, open_paths=OPEN_PATHS)
    app.add_middleware(Stamp)
    app.add_middleware(Audit, database=service.database, prefix=PREFIX)
    return app

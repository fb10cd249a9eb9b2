"""/v1/fine_tuning/jobs/{id}/events: what a run says about itself, in pages or as it happens.

A stream is server-sent events: the id of each is the event's own, so a client that was cut off goes on by
`Last-Event-ID` without a gap. It ends with the job; asked again after the last event, it answers 204,
which tells a browser's EventSource to stop asking.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.auth import ReadDep
from api.service import Service, ServiceDep
from api.views.job import EventView
from api.views.shape import ListView, list_of
from core.store.events import list_events
from core.store.jobs import TERMINAL, get_job
from core.store.keys import Principal

router = APIRouter(prefix="/fine_tuning/jobs", tags=["Fine-tuning"])

LOOK_EVERY_S = 1.0
HEARTBEAT_S = 15.0
STREAM_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class EventsQuery(BaseModel):
    """Which events, and how."""

    after: str | None = None
    limit: int = Field(20, ge=1)
    order: Literal["asc", "desc"] = "desc"
    stream: bool = False


@router.get(
    "/{job_id}/events",
    response_model=ListView[EventView],
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        204: {"description": "The stream is at its end: do not ask again."},
    },
)
async def events(
    service: ServiceDep,
    principal: ReadDep,
    job_id: str,
    asked: Annotated[EventsQuery, Query()],
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response | ListView[EventView]:
    """What happened, newest first unless asked otherwise; `stream=true`: oldest first, and as it happens."""
    reader = _Reader(service, principal, job_id)
    most = min(asked.limit, service.settings.max_page)
    if not asked.stream:
        rows, has_more, _ = await run_in_threadpool(reader.page, asked.after, most, asked.order)
        return list_of(rows, has_more)
    since = last_event_id or asked.after
    first, more, ended = await run_in_threadpool(reader.page, since, most, "asc")
    if ended and not first:
        return Response(status_code=204)
    told = _told(reader, first, quiet=ended and not more, most=most)
    return StreamingResponse(told, media_type="text/event-stream", headers=STREAM_HEADERS)


class _Reader:
    """One job's events, looked up again and again."""

    def __init__(self, service: Service, principal: Principal, job_id: str) -> None:
        self._service = service
        self._project_id = principal.project_id
        self._job_id = job_id

    def page(
        self, after: str | None, limit: int, order: Literal["asc", "desc"]
    ) -> tuple[list[EventView], bool, bool]:
        """Some events, whether there are more, and whether the job has ended and will say no more."""
        with self._service.database.begin() as session:
            job = get_job(session, self._project_id, self._job_id)
            ended = job.status in TERMINAL
            page = list_events(session, job, after=after, limit=limit, order=order)
        return [EventView.of(row) for row in page.rows], page.has_more, ended


async def _told(
    reader: _Reader, events: list[EventView], *, quiet: bool, most: int
) -> AsyncIterator[str]:
    """Events as they come; a comment where none came for a while, so that nobody hangs up."""
    last, silent_s = None, 0.0
    while True:
        for event in events:
            yield f"id: {event.id}\nevent: {event.type}\ndata: {event.model_dump_json()}\n\n"
            last = event.id
        if quiet:
            return
        silent_s = 0.0 if events else silent_s + LOOK_EVERY_S
        if silent_s >= HEARTBEAT_S:
            yield ": still here\n\n"
            silent_s = 0.0
        if len(events) < most:
            await asyncio.sleep(LOOK_EVERY_S)
        events, more, ended = await run_in_threadpool(reader.page, last, most, "asc")
        quiet = ended and not more

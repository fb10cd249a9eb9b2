"""The log of writes: every request that is no reading leaves a row before it is answered, refused ones too.

What was made has its id in the answer alone. So the head of a JSON answer is held back for as long as its
body takes, which is at hand; streams go on as they come.
"""

import json
import logging
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.hygiene import without_secrets
from core.store.audit import Write, add_write
from core.store.database import Database, DatabaseDown
from core.store.keys import Principal

log = logging.getLogger(__name__)

READS = ("GET", "HEAD", "OPTIONS")
REFUSED = 300
UNMATCHED = "unmatched"


class Audit:
    """Stands around everything else, so that it sees each answer as it leaves."""

    def __init__(self, app: ASGIApp, *, database: Database, prefix: str) -> None:
        self._app = app
        self._database = database
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and keep it before its answer goes out."""
        if scope["type"] != "http" or scope["method"] in READS:
            return await self._app(scope, receive, send)
        head: Message | None = None

        async def audited(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                if _is_json(message):
                    head = message
                    return
                await run_in_threadpool(self._keep, self._write(scope, message, b""))
            elif head is not None:
                write = self._write(scope, head, message.get("body", b""))
                await run_in_threadpool(self._keep, write)
                await send(head)
                head = None
            await send(message)

        return await self._app(scope, receive, audited)

    def _write(self, scope: Scope, head: Message, body: bytes) -> Write:
        principal, client = principal_of(scope), scope.get("client")
        return Write(
            organization_id=principal.organization_id if principal else None,
            project_id=principal.project_id if principal else None,
            key_id=principal.key_id if principal else None,
            request_id=_headers(head).get("x-request-id", ""),
            client=client[0] if client else None,
            method=scope["method"],
            route=self._template(scope),
            object_id=_object_id(scope, head["status"], body),
            status=head["status"],
        )

    def _template(self, scope: Scope) -> str:
        """A route of a room knows itself without the prefix under which the room is mounted."""
        route: str = getattr(scope.get("route"), "path", UNMATCHED)
        mounted = scope["path"].startswith(self._prefix) and not route.startswith(self._prefix)
        return self._prefix + route if mounted and route != UNMATCHED else route

    def _keep(self, write: Write) -> None:
        try:
            with self._database.begin() as session:
                add_write(session, write)
        except DatabaseDown:
            # Nothing was written either, but for what a request did before the database went.
            log.error("a write could not be kept in the audit log: %s", write)  # noqa: TRY400 - no fault of ours


def principal_of(scope: Scope) -> Principal | None:
    """Who asks, once that is known; None before, and of a request without a valid key."""
    found: Principal | None = scope.get("state", {}).get("principal")
    return found


def _object_id(scope: Scope, status: int, body: bytes) -> str | None:
    """What it was done to: named by the path, or else made."""
    named = scope.get("path_params")
    if named:  # as it was sent: it may be no id at all, but a key
        return without_secrets("/".join(map(str, named.values())))
    if status >= REFUSED or not body:
        return None
    try:
        answer: Any = json.loads(body)
    except ValueError:  # the first piece of a long answer
        return None
    found = answer.get("id") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else None


def _is_json(head: Message) -> bool:
    return _headers(head).get("content-type", "").startswith("application/json")


def _headers(head: Message) -> Headers:
    return Headers(raw=list(head.get("headers", ())))

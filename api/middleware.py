"""What every answer carries, and what no request may exceed. Pure ASGI, so that streams stay streams."""

import logging
import time
from collections.abc import MutableMapping
from typing import Any

from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.audit import principal_of
from api.errors import ApiError, envelope, server_failure
from api.hygiene import PAGES, PAGES_POLICY, SECURITY_HEADERS, shown_path
from core.store.ids import new_id

log = logging.getLogger("api.access")

REQUESTS = Counter("castalia_http_requests", "Answers given.", ["method", "route", "status"])
SECONDS = Histogram(
    "castalia_http_request_seconds", "Time until the first byte.", ["method", "route"]
)
METHODS = ("DELETE", "GET", "HEAD", "POST")
API_VERSION = "2020-10-01"
MULTIPART_OVERHEAD_BYTES = 64 * 1024


class Stamp:
    """A request id, the time taken, what browsers must know, and one log line a request.

    The id is always made here: one that a client sends is not read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        request_id = new_id("req_")
        began = time.monotonic()
        answered = False

        async def stamped(message: Message) -> None:
            nonlocal answered
            answered = True
            if message["type"] == "http.response.start":
                seconds = time.monotonic() - began
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                headers["openai-version"] = API_VERSION
                headers["openai-processing-ms"] = str(round(seconds * 1000))
                if scope["path"] in PAGES:
                    headers["content-security-policy"] = PAGES_POLICY
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if (principal := principal_of(scope)) is not None:
                    headers["openai-organization"] = principal.organization_id
                _observe(scope, message["status"], seconds, request_id)
            await send(message)

        try:
            await self._app(scope, receive, stamped)
        except Exception:
            # Answered here, inside of the stamp; the server above writes the traceback.
            if not answered:
                await envelope(server_failure())(scope, receive, stamped)
            raise


class BodyLimit:
    """Bodies beyond the limit are refused, whether they say their length or not."""

    def __init__(
        self, app: ASGIApp, *, json_bytes: int, upload_bytes: int, upload_paths: tuple[str, ...]
    ) -> None:
        self._app = app
        self._upload_paths = upload_paths
        self._json_bytes = json_bytes
        self._upload_bytes = upload_bytes + MULTIPART_OVERHEAD_BYTES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        # Only an upload is spooled; any other body is held in memory, whatever it says it is.
        spooled = headers.get("content-type", "").startswith("multipart/form-data")
        upload = spooled and scope["path"].startswith(self._upload_paths)
        limit = self._upload_bytes if upload else self._json_bytes
        declared = headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            return await envelope(_too_large(limit))(scope, receive, send)
        received = 0

        async def counted() -> MutableMapping[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            return message

        return await self._app(scope, counted, send)


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        f"the request is larger than the limit of {limit} bytes",
        code="request_too_large",
        hint="split the file, or ask for CASTALIA_MAX_UPLOAD_BYTES to be raised",
        headers={"connection": "close"},
    )


def _observe(scope: Scope, status: int, seconds: float, request_id: str) -> None:
    # The route's template, not the path: a metric a job would never end.
    route = getattr(scope.get("route"), "path", "unmatched")
    method = scope["method"] if scope["method"] in METHODS else "OTHER"
    REQUESTS.labels(method, route, status).inc()
    SECONDS.labels(method, route).observe(seconds)
    log.info("%s %s %s %d %.3fs", request_id, method, shown_path(scope), status, seconds)

"""The door of /v1: whose key it is and whether it comes too often, before a byte of a body is read.

FastAPI reads a form to its end before a route can ask who sent it, so a stranger could fill the disk. Here
the key is looked up from the headers alone; routes find who it opened for in `request.state.principal`, and a
route that the door does not stand in front of finds nobody there and refuses.
"""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth import identify, refuse_mismatch
from api.errors import ApiError, envelope, unavailable
from api.rates import Allowance
from api.service import Service
from core.store.database import DatabaseDown
from core.store.keys import Principal

MOST_READ_BYTES = 64 * 1024
"""A refused body of up to this length is read and dropped; for a longer one the connection is closed."""


class Door:
    """Lets requests below ``prefix`` in if their key is valid and not too busy; ``open_paths`` need none."""

    def __init__(
        self, app: ASGIApp, *, service: Service, prefix: str, open_paths: frozenset[str]
    ) -> None:
        self._app = app
        self._service = service
        self._prefix = f"{prefix}/"
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if not path.startswith(self._prefix) or path in self._open_paths:
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        try:
            admitted = await run_in_threadpool(self._admit, headers.get("authorization"))
            principal, allowance = admitted
            scope.setdefault("state", {})["principal"] = principal
            refuse_mismatch(headers, principal)
        except ApiError as error:
            return await _refuse(error, headers, scope, receive, send)
        except DatabaseDown as error:
            return await _refuse(unavailable(error), headers, scope, receive, send)
        counted = send if allowance is None else _with_headers(send, allowance.headers)
        if allowance is not None and not allowance.granted:
            return await _refuse(_too_often(allowance), headers, scope, receive, counted)
        return await self._app(scope, receive, counted)

    def _admit(self, authorization: str | None) -> tuple[Principal, Allowance | None]:
        principal = identify(self._service, authorization)
        return principal, self._service.rates.draw(principal.key_id)


def _with_headers(send: Send, extra: dict[str, str]) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(extra)
        await send(message)

    return sent


async def _refuse(
    error: ApiError, headers: Headers, scope: Scope, receive: Receive, send: Send
) -> None:
    answer = envelope(error)
    length = headers.get("content-length", "0")
    told = length.isdecimal() and len(length) <= len(str(MOST_READ_BYTES))
    if "transfer-encoding" in headers or not told or int(length) > MOST_READ_BYTES:
        answer.headers["connection"] = "close"
    await answer(scope, receive, send)


def _too_often(allowance: Allowance) -> ApiError:
    wait_ms = allowance.wait_ms
    return ApiError(
        429,
        f"this key has sent more than {allowance.limit} requests in a minute; wait {wait_ms} ms",
        code="rate_limit_exceeded",
        hint="poll less often, or ask for CASTALIA_REQUESTS_PER_MINUTE to be raised",
        headers={"retry-after-ms": str(wait_ms), "retry-after": str(-(-wait_ms // 1000))},
    )

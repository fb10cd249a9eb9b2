"""Errors as OpenAI's clients read them: one envelope, raised where known, rendered here.

    {"error": {"message", "type", "param", "code", "hint", "details", "fault", "retryable"}}

The client keeps the whole inner object as ``exc.body``, so the keys that are ours reach the user too.
It tries a 409 and a 429 again by itself; ``x-should-retry: false`` tells it where that is of no use.
"""

import logging
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from api.hygiene import shown_path
from core.spec.problems import Problem, problems_of
from core.spec.tree import SpecError
from core.store.database import DatabaseDown
from core.store.errors import ArtifactsDown, Conflict, NotFound
from core.store.models import ModelInUse
from core.store.quotas import QuotaExceeded
from core.store.replays import KeyReused

log = logging.getLogger(__name__)

TYPE_OF_STATUS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
CODE_OF_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}
RETRY_S = 2
LONGEST_METHOD = 20
LONGEST_WAIT_S = 60
"""OpenAI's client heeds no longer `retry-after`: it would be back within seconds, and in vain."""
HELP_WITH_QUOTA = {
    "queued_jobs": "wait until one of the project's jobs runs, or cancel one that waits",
    "stored_bytes": "delete files that are not needed any more",
    "device_seconds": "wait for the next day (UTC)",
}


class ApiError(HTTPException):
    """An answer that is an error; an HTTPException, since FastAPI lets those out of reading a body."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        hint: str | None = None,
        details: list[dict[str, Any]] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.message = message
        self.code = code
        self.param = param
        self.hint = hint
        self.details = details
        super().__init__(status, message, headers)


def install_error_handlers(app: FastAPI) -> None:
    """Every way in which a request can fail ends in the envelope."""

    @app.exception_handler(ApiError)
    def _(request: Request, error: ApiError) -> Response:
        return envelope(error)

    @app.exception_handler(SpecError)
    def _(request: Request, error: SpecError) -> Response:
        return envelope(refusal(error.problems))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> Response:
        return envelope(_invalid_request(error))

    @app.exception_handler(HTTPException)
    def _(request: Request, error: HTTPException) -> Response:
        return envelope(_http(request, error))

    @app.exception_handler(ClientDisconnect)
    def _(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it; what was sent is thrown away

    for down in (*DatabaseDown, ArtifactsDown):

        @app.exception_handler(down)
        def _(request: Request, error: Exception) -> Response:
            log.warning("unavailable: %s", str(error).splitlines()[0])
            return envelope(unavailable(error))

    _install_store_errors(app)


def _install_store_errors(app: FastAPI) -> None:
    @app.exception_handler(NotFound)
    def _(request: Request, error: NotFound) -> Response:
        return envelope(ApiError(404, str(error), code="not_found", param=_param_of(error)))

    @app.exception_handler(Conflict)
    def _(request: Request, error: Conflict) -> Response:
        return envelope(ApiError(400, str(error), code=error.code))

    @app.exception_handler(ModelInUse)
    def _(request: Request, error: ModelInUse) -> Response:
        return envelope(ApiError(409, str(error), code=error.code, param="model"))

    @app.exception_handler(KeyReused)
    def _(request: Request, error: KeyReused) -> Response:
        refused = ApiError(400, str(error), code="idempotency_key_reused", param="Idempotency-Key")
        return envelope(refused)

    @app.exception_handler(QuotaExceeded)
    def _(request: Request, error: QuotaExceeded) -> Response:
        return envelope(_over_quota(error))


def refusal(problems: list[Problem]) -> ApiError:
    """A 400 about the first problem, with all of them in ``details``."""
    first = problems[0]
    place = f"'{first.path}'" if first.path else "body"
    message = f"Invalid {place}: {first.message}"
    details = [{"param": p.path, "message": p.message, "code": p.code} for p in problems]
    return ApiError(400, message, code=first.code, param=first.path or None, details=details)


def envelope(error: ApiError) -> JSONResponse:
    """The answer that carries ``error``."""
    default = (
        "invalid_request_error"
        if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR
        else "server_error"
    )
    body: dict[str, Any] = {
        "message": error.message,
        "type": TYPE_OF_STATUS.get(error.status_code, default),
        "param": error.param,
        "code": error.code,
    }
    if error.hint is not None:
        body["hint"] = error.hint
    if error.details is not None:
        body["details"] = error.details
    headers = {**_retry_header(error), **(error.headers or {})}
    return JSONResponse({"error": body}, error.status_code, headers)


def _retry_header(error: ApiError) -> dict[str, str]:
    """Whether to try again, wherever the client would guess wrong."""
    if error.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
        return {"x-should-retry": "true"}
    wait = (error.headers or {}).get("retry-after", "0")
    too_long = wait.isdecimal() and int(wait) > LONGEST_WAIT_S
    too_soon = error.status_code == HTTPStatus.TOO_MANY_REQUESTS and too_long
    if error.status_code == HTTPStatus.CONFLICT or too_soon:
        return {"x-should-retry": "false"}
    return {}


def server_failure() -> ApiError:
    """A 500: the fault is ours."""
    return ApiError(500, "the server failed to answer", code="internal_error")


def _invalid_request(error: RequestValidationError) -> ApiError:
    faults = [dict(fault) for fault in error.errors()]
    if faults[0]["type"] == "json_invalid":
        where = faults[0]["loc"][-1]
        reason = faults[0]["ctx"]["error"]
        return ApiError(
            400, f"the body is not JSON: {reason} at character {where}", code="invalid_json"
        )
    in_body = faults[0]["loc"][0] == "body"
    for fault in faults:
        fault["loc"] = fault["loc"][1:]
    parameters = {fault["loc"][0]: fault["input"] for fault in faults if fault["loc"]}
    return refusal(problems_of(faults, _document(error.body) if in_body else parameters))


def _document(body: Any) -> Any:
    """What was sent, as faults can be looked up in it: JSON as it is, a form as its fields."""
    return dict(body) if isinstance(body, FormData) else body or {}


def _over_quota(error: QuotaExceeded) -> ApiError:
    wait_s = None if error.retry_after_s is None else ceil(error.retry_after_s)
    headers = {} if wait_s is None else {"retry-after": str(wait_s)}
    if wait_s is None:
        headers["x-should-retry"] = "false"
    numbers = {"limit": error.limit, "used": error.used, "asked": error.asked}
    return ApiError(
        429,
        str(error),
        code="quota_exceeded",
        param=error.quota,
        hint=f"{HELP_WITH_QUOTA[error.quota]}; whoever runs the service can raise it: "
        "`castalia projects quota`",
        details=[{"quota": error.quota, **numbers}],
        headers=headers,
    )


def _param_of(error: NotFound) -> str:
    return "after" if "after" in error.noun else "id"


def _http(request: Request, error: HTTPException) -> ApiError:
    message = str(error.detail)
    if error.status_code in (404, 405):
        message = (
            f"{request.method[:LONGEST_METHOD]} {shown_path(request.scope)}: {message.lower()}"
        )
    code = CODE_OF_STATUS.get(error.status_code, "invalid_request")
    return ApiError(error.status_code, message, code=code, headers=dict(error.headers or {}))


def unavailable(error: Exception) -> ApiError:
    """A 503: a server that we need is away, and nothing was changed."""
    what, code = "database cannot be reached", "database_unavailable"
    if isinstance(error, ArtifactsDown):
        what, code = "artifact store cannot be used", "artifacts_unavailable"
    return ApiError(
        503,
        f"the {what}; nothing was changed",
        code=code,
        hint="try again in a moment; if it lasts, ask whoever runs the service",
        headers={"retry-after": str(RETRY_S)},
    )

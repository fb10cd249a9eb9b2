"""Who is asking: a bearer key opens exactly one project."""

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.errors import ApiError
from api.service import ServiceDep
from core.store.keys import Principal, authenticate

bearer = HTTPBearer(auto_error=False, description="A key made by `castalia keys create`.")

HINT = "send the header 'Authorization: Bearer sk-castalia-…'; `castalia keys create` makes a key"


def _principal(
    service: ServiceDep,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Principal:
    if credentials is None:
        raise _unauthorized("no API key was given")
    with service.database.begin() as session:
        principal = authenticate(session, credentials.credentials)
    if principal is None:
        raise _unauthorized("the API key is not valid")
    return principal


def _unauthorized(message: str) -> ApiError:
    return ApiError(
        401,
        message,
        code="invalid_api_key",
        hint=HINT,
        headers={"www-authenticate": "Bearer"},
    )


PrincipalDep = Annotated[Principal, Depends(_principal)]

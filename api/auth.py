"""Who is asking: a bearer key opens exactly one project."""

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param

from api.errors import ApiError
from api.service import Service
from core.store.keys import Principal, authenticate

bearer = HTTPBearer(auto_error=False, description="A key made by `castalia keys create`.")

HINT = "send the header 'Authorization: Bearer sk-castalia-…'; `castalia keys create` makes a key"


def identify(service: Service, authorization: str | None) -> Principal:
    """Whose key the header holds. Raises ApiError 401; the key itself is in no message."""
    scheme, secret = get_authorization_scheme_param(authorization)
    if scheme.lower() != "bearer" or not secret:
        raise _unauthorized("no API key was given")
    with service.database.begin() as session:
        principal = authenticate(session, secret)
    if principal is None:
        raise _unauthorized("the API key is not valid")
    return principal


def _principal(
    request: Request,
    _: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],  # told in the description
) -> Principal:
    """Whom `api.door` let in. Where no door stands, nobody was."""
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None:
        raise _unauthorized("no API key was given")
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

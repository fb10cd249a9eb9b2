"""Who is asking, and what she may: a bearer key opens exactly one project, as far as its scopes go.

A route declares the scope that it needs by the type of its ``principal``: `ReadDep` where nothing is changed
(GET, HEAD), `SubmitDep` where something is, `AdminDep` where it is decided who may do or hear what: keys,
permissions, webhooks.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import Headers

from api.errors import ApiError
from api.service import Service
from core.store.keys import Principal, Scope, authenticate

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


def refuse_mismatch(headers: Headers, principal: Principal) -> None:
    """Raises ApiError if the headers name another organization or project than the key's.

    OpenAI's clients may say for whom they think they ask; a key decides that alone.
    """
    ids = {"organization": principal.organization_id, "project": principal.project_id}
    for noun, id in ids.items():
        header = f"OpenAI-{noun.capitalize()}"
        said = headers.get(header)
        if said and said != id:
            raise ApiError(
                401,
                f"the header {header} names another {noun} than that of the API key",
                code=f"mismatched_{noun}",
                param=header,
                hint="leave the header out, or use a key of what it names",
            )


async def _principal(
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
"""Whoever asks, whatever she may: for what goes along with a route that declares a scope."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependency by which a route declares its scope."""

    scope: Scope

    async def __call__(self, principal: PrincipalDep) -> Principal:
        """Who asks. Raises ApiError if her key has not the scope."""
        if not principal.may(self.scope):
            raise ApiError(
                403,
                f"this needs the scope '{self.scope}'; the key has: {', '.join(principal.scopes)}",
                code="insufficient_scope",
                hint=f"use a key of `castalia keys create --scopes {self.scope}`",
                headers={
                    "www-authenticate": f'Bearer error="insufficient_scope", scope="{self.scope}"'
                },
            )
        return principal


ReadDep = Annotated[Principal, Depends(Needs("read"))]
SubmitDep = Annotated[Principal, Depends(Needs("submit"))]
AdminDep = Annotated[Principal, Depends(Needs("admin"))]

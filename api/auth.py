"""Who is asking, and what she may: a bearer key opens exactly one project, as far as its scopes go.

A route declares the scope that it needs by the type of its ``principal``: `ReadDep` where nothing is changed
(GET, HEAD), `SubmitDep` where something is, `AdminDep` where it is decided who may do or hear what: keys,
permissions, webhooks.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.errors import ApiError
from api.service import ServiceDep
from core.store.keys import Principal, Scope, authenticate

bearer = HTTPBearer(auto_error=False, description="A key made by `castalia keys create`.")

HINT = "send the header 'Authorization: Bearer sk-castalia-…'; `castalia keys create` makes a key"


def _principal(
    request: Request,
    service: ServiceDep,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)],
) -> Principal:
    if credentials is None:
        raise _unauthorized("no API key was given")
    with service.database.begin() as session:
        principal = authenticate(session, credentials.credentials)
    if principal is None:
        raise _unauthorized("the API key is not valid")
    request.state.principal = principal
    _refuse_mismatch(request, "organization", principal.organization_id)
    _refuse_mismatch(request, "project", principal.project_id)
    return principal


def _refuse_mismatch(request: Request, noun: str, id: str) -> None:
    """OpenAI's clients may say for whom they think they ask; a key decides that alone."""
    header = f"OpenAI-{noun.capitalize()}"
    said = request.headers.get(header)
    if said and said != id:
        raise ApiError(
            401,
            f"the header {header} names another {noun} than that of the API key",
            code=f"mismatched_{noun}",
            param=header,
            hint="leave the header out, or use a key of what it names",
        )


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

    def __call__(self, principal: PrincipalDep) -> Principal:
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

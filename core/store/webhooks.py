"""Webhook endpoints of a project, and the secrets that sign what is sent to them.

A secret is kept as it is: it must sign, so a hash would not do. It is shown when it is made and never again.
"""

import base64
import secrets
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from core.spec.webhook import SECRET_PREFIX
from core.store.errors import Conflict, NotFound
from core.store.ids import new_id
from core.store.leases import from_now
from core.store.paging import Page, page_of
from core.store.tables import EndpointRow, SigningSecretRow

SECRET_BYTES = 32
HINT_CHARACTERS = 4
OLD_SECRET_S = 86_400.0
MOST_ENDPOINTS = 20
"""In one project: each is one more request for every event."""
MOST_SECRETS = 5
"""Of one endpoint that sign at once: each is one more signature in a header."""


def create_endpoint(
    session: Session, project_id: str, *, name: str, url: str, event_types: Sequence[str]
) -> tuple[EndpointRow, str]:
    """A new endpoint and its secret. Raises Conflict if the project has as many as it may."""
    query = select(func.count()).where(EndpointRow.project_id == project_id)
    if session.scalar(query) >= MOST_ENDPOINTS:  # type: ignore[operator]  # a count is never null
        message = f"the project has {MOST_ENDPOINTS} webhook endpoints already; delete one first"
        raise Conflict(message, "webhook_endpoint_limit")
    row = EndpointRow(
        id=new_id("we_"),
        project_id=project_id,
        name=name,
        url=url,
        event_types=list(event_types),
        hint="",
    )
    session.add(row)
    session.flush()
    return row, _new_secret(session, row)


def get_endpoint(session: Session, project_id: str, endpoint_id: str) -> EndpointRow:
    """Raises NotFound, for an endpoint of another project as well."""
    return _one(session, project_id, endpoint_id)


def list_endpoints(
    session: Session, project_id: str, *, after: str | None, limit: int
) -> Page[EndpointRow]:
    """One page of a project's endpoints, newest first."""
    query = select(EndpointRow).where(EndpointRow.project_id == project_id)
    return page_of(session, query, EndpointRow.id, EndpointRow.position, after=after, limit=limit)


def update_endpoint(
    session: Session, project_id: str, endpoint_id: str, changes: dict[str, Any]
) -> EndpointRow:
    """Set ``name``, ``url`` or ``event_types``; a URL that is given opens a disabled endpoint again.

    Raises NotFound. What is given as it was changes nothing.
    """
    row = _one(session, project_id, endpoint_id, lock=True)
    changed = {name for name, value in changes.items() if getattr(row, name) != value}
    for name in changed:
        setattr(row, name, changes[name])
    if "url" in changes and row.disabled_at is not None:
        row.disabled_at = None
        changed.add("disabled_at")
    if changed:
        row.updated_at = func.now()
    return _fresh(session, row)


def delete_endpoint(session: Session, project_id: str, endpoint_id: str) -> None:
    """Gone, with its secrets and all that was to be delivered to it. Raises NotFound."""
    session.delete(_one(session, project_id, endpoint_id, lock=True))
    session.flush()


def rotate_secret(
    session: Session, project_id: str, endpoint_id: str, *, keep_old: bool
) -> tuple[EndpointRow, str]:
    """A new secret; with ``keep_old`` what signed until now signs beside it for another day.

    Raises NotFound, and Conflict if too many are kept already.
    """
    row = _one(session, project_id, endpoint_id, lock=True)
    mine = SigningSecretRow.endpoint_id == row.id
    if not keep_old:
        session.execute(delete(SigningSecretRow).where(mine))
    session.execute(delete(SigningSecretRow).where(mine, SigningSecretRow.expires_at < func.now()))
    if len(session.scalars(select(SigningSecretRow.position).where(mine)).all()) >= MOST_SECRETS:
        message = f"{MOST_SECRETS} secrets of '{row.id}' are in use; rotate without keeping the old"
        raise Conflict(message, "webhook_secret_limit")
    session.execute(
        update(SigningSecretRow)
        .where(mine, SigningSecretRow.expires_at.is_(None))
        .values(expires_at=from_now(OLD_SECRET_S))
    )
    secret = _new_secret(session, row)
    row.updated_at = func.now()
    return _fresh(session, row), secret


def _new_secret(session: Session, row: EndpointRow) -> str:
    secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
    session.add(SigningSecretRow(endpoint_id=row.id, secret=secret))
    row.hint = secret[-HINT_CHARACTERS:]
    _fresh(session, row)
    return secret


def _fresh(session: Session, row: EndpointRow) -> EndpointRow:
    session.flush()
    session.refresh(row)
    return row


def _one(session: Session, project_id: str, endpoint_id: str, *, lock: bool = False) -> EndpointRow:
    query = select(EndpointRow).where(
        EndpointRow.id == endpoint_id, EndpointRow.project_id == project_id
    )
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise NotFound("webhook endpoint", endpoint_id)
    return row

"""The bearer keys of projects. A secret is shown once, when it is made; only its hash is kept.

A key has scopes. A key that is rotated gets another secret and stays the same key; its former secret opens
it for as long as the rotation grants, and never becomes the secret of a key again.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from core.store.errors import Conflict, NotFound
from core.store.ids import new_id
from core.store.leases import from_now
from core.store.projects import DEFAULT_PROJECT, project_named
from core.store.tables import FormerSecretRow, KeyRow, ProjectRow

SECRET_PREFIX = "sk-castalia-"  # noqa: S105 - the public part of every key
SECRET_BYTES = 32
HINT_CHARACTERS = 4

Scope = Literal["read", "submit", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "submit", "admin")
"""Each implies those before it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the project that a valid key opened, and what the key was given."""

    project_id: str
    organization_id: str
    key_id: str
    scopes: tuple[str, ...] = SCOPES

    def may(self, scope: Scope) -> bool:
        """Whether the key has this scope, or one that implies it."""
        return any(given in self.scopes for given in SCOPES[SCOPES.index(scope) :])


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def create_key(
    session: Session,
    project: ProjectRow,
    name: str,
    secret: str,
    scopes: Sequence[Scope] = SCOPES,
) -> KeyRow:
    """A key that opens ``project``; of the secret only the hash and its tail are kept."""
    row = KeyRow(
        id=new_id("key_"),
        project_id=project.id,
        name=name,
        scopes=list(scopes),
        secret_sha256=_hash(secret),
        hint=secret[-HINT_CHARACTERS:],
    )
    session.add(row)
    session.flush()
    return row


def ensure_key(session: Session, name: str, secret: str) -> None:
    """The key of ``secret`` in the default project, with every scope, made if it was never made before.

    A secret that was rotated away is left as it is.
    """
    known = or_(
        select(KeyRow.id).where(KeyRow.secret_sha256 == _hash(secret)).exists(),
        select(FormerSecretRow.key_id)
        .where(FormerSecretRow.secret_sha256 == _hash(secret))
        .exists(),
    )
    if not session.scalar(select(known)):
        create_key(session, project_named(session, DEFAULT_PROJECT), name, secret)


def authenticate(session: Session, secret: str) -> Principal | None:
    """Whose key this is, or None if it is unknown, revoked, or was rotated away.

    The lookup is by the hash of 256 random bits, so its timing tells nothing about a secret.
    """
    former = (
        select(FormerSecretRow.key_id)
        .where(
            FormerSecretRow.secret_sha256 == _hash(secret),
            FormerSecretRow.valid_until > func.clock_timestamp(),
        )
        .scalar_subquery()
    )
    query = (
        select(KeyRow.id, KeyRow.scopes, ProjectRow.id, ProjectRow.organization_id)
        .join(ProjectRow, ProjectRow.id == KeyRow.project_id)
        .where(or_(KeyRow.secret_sha256 == _hash(secret), KeyRow.id == former))
        .where(KeyRow.revoked_at.is_(None))
    )
    found = session.execute(query).one_or_none()
    if found is None:
        return None
    key_id, scopes, project_id, organization_id = found
    return Principal(project_id, organization_id, key_id, tuple(scopes))


def list_keys(session: Session) -> list[tuple[KeyRow, str]]:
    """Every key with the name of its project, oldest first."""
    query = (
        select(KeyRow, ProjectRow.name)
        .join(ProjectRow, ProjectRow.id == KeyRow.project_id)
        .order_by(KeyRow.created_at, KeyRow.id)
    )
    return [(key, name) for key, name in session.execute(query)]


def rotate_key(session: Session, key_id: str, secret: str, *, grace_s: float) -> KeyRow:
    """Give a key another secret; the former one, and any before it, opens it for ``grace_s`` at the most.

    Raises NotFound, and Conflict if the key is revoked.
    """
    row = session.scalar(select(KeyRow).where(KeyRow.id == key_id).with_for_update())
    if row is None:
        raise NotFound("key", key_id)
    if row.revoked_at is not None:
        raise Conflict(f"key '{key_id}' is revoked", "key_revoked")
    end = from_now(grace_s)
    older = update(FormerSecretRow).where(
        FormerSecretRow.key_id == key_id, FormerSecretRow.valid_until > end
    )
    session.execute(older.values(valid_until=end), execution_options={"synchronize_session": False})
    session.add(FormerSecretRow(secret_sha256=row.secret_sha256, key_id=key_id, valid_until=end))
    row.secret_sha256, row.hint = _hash(secret), secret[-HINT_CHARACTERS:]
    session.flush()
    return row


def revoke_key(session: Session, key_id: str) -> None:
    """From now on the key opens nothing. Raises NotFound; revoking twice keeps the first time."""
    found = session.scalar(
        update(KeyRow)
        .where(KeyRow.id == key_id)
        .values(revoked_at=func.coalesce(KeyRow.revoked_at, func.now()))
        .returning(KeyRow.id)
    )
    if found is None:
        raise NotFound("key", key_id)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()

"""Projects and their bearer keys. A secret is shown once, when it is made; only its hash is kept."""

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from core.store.errors import NotFound
from core.store.ids import new_id
from core.store.tables import KeyRow, ProjectRow

SECRET_PREFIX = "sk-castalia-"  # noqa: S105 - the public part of every key
SECRET_BYTES = 32
HINT_CHARACTERS = 4
DEFAULT_PROJECT = "default"
DEFAULT_ORGANIZATION = "org-castalia"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the project that a valid key opened."""

    project_id: str
    organization_id: str
    key_id: str


def project_named(session: Session, name: str) -> ProjectRow:
    """The project of this name, made if there is none."""
    found = session.scalar(select(ProjectRow).where(ProjectRow.name == name))
    if found is not None:
        return found
    row = ProjectRow(id=new_id("proj_"), name=name, organization_id=DEFAULT_ORGANIZATION)
    session.add(row)
    session.flush()
    return row


def new_secret() -> str:
    """A secret that cannot be guessed."""
    return SECRET_PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def create_key(session: Session, project: ProjectRow, name: str, secret: str) -> KeyRow:
    """A key that opens ``project``; of the secret only the hash and its tail are kept."""
    row = KeyRow(
        id=new_id("key_"),
        project_id=project.id,
        name=name,
        secret_sha256=_hash(secret),
        hint=secret[-HINT_CHARACTERS:],
    )
    session.add(row)
    session.flush()
    return row


def ensure_key(session: Session, name: str, secret: str) -> None:
    """The key of ``secret`` in the default project, made if it was never made before."""
    known = session.scalar(select(KeyRow.id).where(KeyRow.secret_sha256 == _hash(secret)))
    if known is None:
        create_key(session, project_named(session, DEFAULT_PROJECT), name, secret)


def authenticate(session: Session, secret: str) -> Principal | None:
    """Whose key this is, or None if it is unknown or revoked.

    The lookup is by the hash of 256 random bits, so its timing tells nothing about a secret.
    """
    query = (
        select(KeyRow.id, ProjectRow.id, ProjectRow.organization_id)
        .join(ProjectRow, ProjectRow.id == KeyRow.project_id)
        .where(KeyRow.secret_sha256 == _hash(secret), KeyRow.revoked_at.is_(None))
    )
    found = session.execute(query).one_or_none()
    if found is None:
        return None
    key_id, project_id, organization_id = found
    return Principal(project_id, organization_id, key_id)


def list_keys(session: Session) -> list[tuple[KeyRow, str]]:
    """Every key with the name of its project, oldest first."""
    query = (
        select(KeyRow, ProjectRow.name)
        .join(ProjectRow, ProjectRow.id == KeyRow.project_id)
        .order_by(KeyRow.created_at, KeyRow.id)
    )
    return [(key, name) for key, name in session.execute(query)]


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

"""Organisations and their projects. A project is the tenant; its name is its own in the whole service."""

from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.store.errors import Conflict
from core.store.ids import new_id
from core.store.tables import OrganizationRow, ProjectRow

DEFAULT_PROJECT = "default"
DEFAULT_ORGANIZATION = "org-castalia"
"""The id of the organisation `default`, which every database has."""
NAME_TAKEN = "name_taken"
R = TypeVar("R", OrganizationRow, ProjectRow)


def create_organization(session: Session, name: str) -> OrganizationRow:
    """A new organisation. Raises Conflict if the name is taken."""
    row = _insert(session, OrganizationRow, id=new_id("org-"), name=name)
    if row is None:
        raise Conflict(f"there is an organisation '{name}' already", NAME_TAKEN)
    return row


def find_organization(session: Session, name: str) -> OrganizationRow | None:
    """The organisation of this name."""
    return session.scalar(select(OrganizationRow).where(OrganizationRow.name == name))


def list_organizations(session: Session) -> list[OrganizationRow]:
    """All of them, oldest first."""
    order = (OrganizationRow.created_at, OrganizationRow.id)
    return list(session.scalars(select(OrganizationRow).order_by(*order)))


def create_project(session: Session, name: str, organization_id: str) -> ProjectRow:
    """A new project. Raises Conflict if the name is taken."""
    row = _insert(
        session, ProjectRow, id=new_id("proj_"), name=name, organization_id=organization_id
    )
    if row is None:
        raise Conflict(f"there is a project '{name}' already", NAME_TAKEN)
    return row


def find_project(session: Session, name: str) -> ProjectRow | None:
    """The project of this name."""
    return session.scalar(select(ProjectRow).where(ProjectRow.name == name))


def project_named(session: Session, name: str) -> ProjectRow:
    """The project of this name, made in the default organisation if there is none."""
    return find_project(session, name) or create_project(session, name, DEFAULT_ORGANIZATION)


def list_projects(session: Session) -> list[tuple[ProjectRow, str]]:
    """Every project with the name of its organisation, oldest first."""
    query = (
        select(ProjectRow, OrganizationRow.name)
        .join(OrganizationRow, OrganizationRow.id == ProjectRow.organization_id)
        .order_by(ProjectRow.created_at, ProjectRow.id)
    )
    return [(project, name) for project, name in session.execute(query)]


def _insert(session: Session, table: type[R], **values: str) -> R | None:
    added = insert(table).values(**values).on_conflict_do_nothing(index_elements=["name"])
    return session.scalar(added.returning(table))

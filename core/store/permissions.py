"""Checkpoints that a project shares: the other may start from them and see them, and nothing else."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from core.store.errors import NotFound
from core.store.ids import new_id
from core.store.models import TunedModel
from core.store.paging import Order, Page, page_of
from core.store.tables import PermissionRow, ProjectRow


def share_checkpoint(
    session: Session, model: TunedModel, project_ids: Sequence[str]
) -> Sequence[PermissionRow]:
    """Let these projects use ``model``; a permission that is there already stays as it is.

    Raises NotFound for a project that is not of the same organisation.
    """
    known = _projects_beside(session, model)
    for project_id in project_ids:
        if project_id not in known:
            raise NotFound("project", project_id)
        added = insert(PermissionRow).values(
            id=new_id("cp_"), checkpoint_id=model.checkpoint.id, project_id=project_id
        )
        session.execute(added.on_conflict_do_nothing())
    query = select(PermissionRow).where(
        PermissionRow.checkpoint_id == model.checkpoint.id,
        PermissionRow.project_id.in_(project_ids),
    )
    return session.scalars(query.order_by(PermissionRow.position)).all()


def list_permissions(
    session: Session,
    model: TunedModel,
    *,
    project_id: str | None,
    after: str | None,
    limit: int,
    order: Order,
) -> Page[PermissionRow]:
    """One page of the permissions on a checkpoint, or of one project's."""
    query = select(PermissionRow).where(PermissionRow.checkpoint_id == model.checkpoint.id)
    if project_id is not None:
        query = query.where(PermissionRow.project_id == project_id)
    return page_of(
        session,
        query,
        PermissionRow.id,
        PermissionRow.position,
        after=after,
        limit=limit,
        order=order,
    )


def withdraw_permission(session: Session, model: TunedModel, permission_id: str) -> None:
    """Jobs that start from now on may not use the checkpoint. Raises NotFound."""
    gone = delete(PermissionRow).where(
        PermissionRow.id == permission_id, PermissionRow.checkpoint_id == model.checkpoint.id
    )
    if session.scalar(gone.returning(PermissionRow.id)) is None:
        raise NotFound("permission", permission_id)


def _projects_beside(session: Session, model: TunedModel) -> set[str]:
    own = session.get_one(ProjectRow, model.job.project_id)
    query = select(ProjectRow.id).where(ProjectRow.organization_id == own.organization_id)
    return set(session.scalars(query))

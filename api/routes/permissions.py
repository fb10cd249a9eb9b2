"""/v1/fine_tuning/checkpoints/{checkpoint}/permissions: which other projects may start from a checkpoint.

Only the project that made it shares it. The other sees the model by its name and can train on from it;
it can neither list, download, share nor delete it.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from api.auth import AdminDep, ReadDep
from api.requests import ShareCheckpoint
from api.service import ServiceDep
from api.views.permission import PermissionView
from api.views.shape import DeletedView, ListView, list_of
from core.store.models import find_own_model, require_ended
from core.store.permissions import list_permissions, share_checkpoint, withdraw_permission

router = APIRouter(prefix="/fine_tuning/checkpoints", tags=["Fine-tuning"])

ORDERS: dict[str, Literal["asc", "desc"]] = {"ascending": "asc", "descending": "desc"}


@router.post("/{checkpoint:path}/permissions")
def create(
    service: ServiceDep, principal: AdminDep, checkpoint: str, body: ShareCheckpoint
) -> ListView[PermissionView]:
    """Share a checkpoint with projects of the same organisation; sharing it again changes nothing."""
    with service.database.begin() as session:
        model = find_own_model(session, principal.project_id, checkpoint, lock="share")
        require_ended(model)
        rows = share_checkpoint(session, model, body.project_ids)
    return list_of([PermissionView.of(row) for row in rows], has_more=False)


@router.get("/{checkpoint:path}/permissions")
def list_(
    service: ServiceDep,
    principal: ReadDep,
    checkpoint: str,
    project_id: str | None = None,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1)] = 10,
    order: Literal["ascending", "descending"] = "descending",
) -> ListView[PermissionView]:
    """With whom a checkpoint is shared."""
    with service.database.begin() as session:
        page = list_permissions(
            session,
            find_own_model(session, principal.project_id, checkpoint),
            project_id=project_id,
            after=after,
            limit=min(limit, service.settings.max_page),
            order=ORDERS[order],
        )
    return list_of([PermissionView.of(row) for row in page.rows], page.has_more)


@router.delete("/{checkpoint:path}/permissions/{permission_id}")
def delete(
    service: ServiceDep, principal: AdminDep, checkpoint: str, permission_id: str
) -> DeletedView:
    """Share it no longer. What started from it goes on."""
    with service.database.begin() as session:
        model = find_own_model(session, principal.project_id, checkpoint)
        withdraw_permission(session, model, permission_id)
    return DeletedView(id=permission_id, object="checkpoint.permission")

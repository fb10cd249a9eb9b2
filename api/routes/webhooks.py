"""/v1/webhook_endpoints: who is told when jobs end, with which secret, and what became of it."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from api.auth import AdminDep, ReadDep
from api.service import ServiceDep
from api.views.shape import DeletedView, ListView, list_of
from api.views.webhook import (
    DeliveryView,
    EndpointTestView,
    EndpointView,
    EndpointWithSecretView,
    EventTypesView,
)
from api.webhook_requests import (
    CreateEndpoint,
    RotateSecret,
    TryEndpoint,
    UpdateEndpoint,
    check_url,
    status_of_try,
    unique,
)
from core.store.deliveries import list_deliveries, secrets_of
from core.store.webhooks import (
    create_endpoint,
    delete_endpoint,
    get_endpoint,
    list_endpoints,
    rotate_secret,
    update_endpoint,
)

router = APIRouter(tags=["Webhooks"])

Limit = Annotated[int, Query(ge=1)]
PATH = "/webhook_endpoints"


@router.get("/webhook_event_types")
def event_types(_: ReadDep) -> EventTypesView:
    """What can be told: OpenAI's own types, then ours."""
    return EventTypesView()


@router.post(PATH)
def create(
    service: ServiceDep, principal: AdminDep, body: CreateEndpoint
) -> EndpointWithSecretView:
    """A new endpoint. Its secret is shown now and never again."""
    check_url(service.sender, body.url)
    with service.database.begin() as session:
        row, secret = create_endpoint(
            session,
            principal.project_id,
            name=body.name,
            url=body.url,
            event_types=unique(list(body.event_types)),
        )
    return EndpointWithSecretView.of(row, signing_secret=secret)


@router.get(PATH)
def list_(
    service: ServiceDep, principal: ReadDep, after: str | None = None, limit: Limit = 20
) -> ListView[EndpointView]:
    """The project's endpoints, newest first."""
    limit = min(limit, service.settings.max_page)
    with service.database.begin() as session:
        page = list_endpoints(session, principal.project_id, after=after, limit=limit)
    return list_of([EndpointView.of(row) for row in page.rows], page.has_more)


@router.get(PATH + "/{endpoint_id}")
def retrieve(service: ServiceDep, principal: ReadDep, endpoint_id: str) -> EndpointView:
    """One endpoint, without its secret."""
    with service.database.begin() as session:
        return EndpointView.of(get_endpoint(session, principal.project_id, endpoint_id))


@router.post(PATH + "/{endpoint_id}")
def update(
    service: ServiceDep, principal: AdminDep, endpoint_id: str, body: UpdateEndpoint
) -> EndpointView:
    """Change name, url or event types; what is left out stays."""
    if body.url is not None:
        check_url(service.sender, body.url)
    with service.database.begin() as session:
        row = update_endpoint(session, principal.project_id, endpoint_id, body.changes())
    return EndpointView.of(row)


@router.delete(PATH + "/{endpoint_id}")
def delete(service: ServiceDep, principal: AdminDep, endpoint_id: str) -> DeletedView:
    """Delete an endpoint with all that was to be sent to it."""
    with service.database.begin() as session:
        delete_endpoint(session, principal.project_id, endpoint_id)
    return DeletedView(id=endpoint_id, object="webhook_endpoint.deleted")


@router.post(PATH + "/{endpoint_id}/rotate_secret")
def rotate(
    service: ServiceDep,
    principal: AdminDep,
    endpoint_id: str,
    body: RotateSecret | None = None,
) -> EndpointWithSecretView:
    """A new secret; if asked for, the old one signs beside it for another day."""
    keep_old = body is not None and body.keep_old_secret_active_for_24_hours
    with service.database.begin() as session:
        row, secret = rotate_secret(session, principal.project_id, endpoint_id, keep_old=keep_old)
    return EndpointWithSecretView.of(row, signing_secret=secret)


@router.post(PATH + "/{endpoint_id}/test")
def test(
    service: ServiceDep, principal: AdminDep, endpoint_id: str, body: TryEndpoint
) -> EndpointTestView:
    """Send a signed sample now and tell what was answered. Takes up to 20 seconds."""
    with service.database.begin() as session:
        row = get_endpoint(session, principal.project_id, endpoint_id)
        secrets = secrets_of(session, row.id, datetime.now(UTC))
    status = status_of_try(service.sender, row.url, body.event_type, secrets)
    return EndpointTestView(
        webhook_endpoint_id=row.id, event_type=body.event_type, status_code=status
    )


@router.get(PATH + "/{endpoint_id}/deliveries")
def deliveries(
    service: ServiceDep,
    principal: ReadDep,
    endpoint_id: str,
    after: str | None = None,
    limit: Limit = 20,
) -> ListView[DeliveryView]:
    """What was sent to an endpoint or is to be, newest first."""
    limit = min(limit, service.settings.max_page)
    with service.database.begin() as session:
        row = get_endpoint(session, principal.project_id, endpoint_id)
        page = list_deliveries(session, row, after=after, limit=limit)
    return list_of([DeliveryView.of(found) for found in page.rows], page.has_more)

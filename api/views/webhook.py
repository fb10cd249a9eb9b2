"""Webhook endpoints in OpenAI's shape, and what was sent to them, which OpenAI does not show."""

from typing import Any, Literal, Self

from pydantic import BaseModel

from api.views.shape import unix
from core.spec.webhook import EVENT_TYPES, SECRET_PREFIX
from core.store.tables import DeliveryRow, EndpointRow


class EndpointView(BaseModel):
    """Where a project is told. ``disabled_at`` is ours: since when the receiver says it is gone."""

    id: str
    object: Literal["webhook_endpoint"] = "webhook_endpoint"
    created_at: int
    updated_at: int
    name: str
    url: str
    event_types: list[str]
    signing_secret_hint: str
    disabled_at: int | None

    @classmethod
    def of(cls, row: EndpointRow, **more: Any) -> Self:
        """The view of a row."""
        return cls(
            id=row.id,
            created_at=unix(row.created_at) or 0,
            updated_at=unix(row.updated_at) or 0,
            name=row.name,
            url=row.url,
            event_types=row.event_types,
            signing_secret_hint=f"{SECRET_PREFIX}…{row.hint}",
            disabled_at=unix(row.disabled_at),
            **more,
        )


class EndpointWithSecretView(EndpointView):
    """The same, this one time with its secret."""

    signing_secret: str


class EndpointTestView(BaseModel):
    """An event was sent and answered, with whatever status."""

    object: Literal["webhook_endpoint.test"] = "webhook_endpoint.test"
    webhook_endpoint_id: str
    event_type: str
    success: Literal[True] = True
    status_code: int


class EventTypesView(BaseModel):
    """What can be told."""

    object: Literal["list"] = "list"
    data: list[str] = list(EVENT_TYPES)


class DeliveryView(BaseModel):
    """One event for one endpoint. ``id`` is the event's, the `webhook-id` of every try."""

    id: str
    object: Literal["webhook_endpoint.delivery"] = "webhook_endpoint.delivery"
    created_at: int
    type: str
    data: dict[str, Any]
    status: str
    attempts: int
    next_attempt_at: int | None
    finished_at: int | None
    last_status_code: int | None
    last_problem: str | None

    @classmethod
    def of(cls, row: DeliveryRow) -> Self:
        """The view of a row."""
        return cls(
            id=row.event_id,
            created_at=unix(row.created_at) or 0,
            type=row.type,
            data=row.data,
            status=row.status,
            attempts=row.attempts,
            next_attempt_at=unix(row.due_at) if row.status == "pending" else None,
            finished_at=unix(row.finished_at),
            last_status_code=row.last_status_code,
            last_problem=row.last_problem,
        )

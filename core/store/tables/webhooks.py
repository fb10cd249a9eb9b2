"""Webhooks: where to, signed with what, and what is to be delivered."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, func
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row
from core.store.tables.text import StoredText

DELIVERY_STATUSES = ("pending", "delivered", "given_up")


class EndpointRow(Row):
    """Where a project wants to be told. ``hint`` is the tail of the secret that signs now."""

    __tablename__ = "webhook_endpoints"

    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    url: Mapped[str]
    event_types: Mapped[list[str]] = mapped_column(ARRAY(StoredText))
    hint: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())
    disabled_at: Mapped[datetime | None]
    """When the receiver said that it is gone for good."""


class SigningSecretRow(Row):
    """A secret of an endpoint. One has no end; those that it took over from sign for a while longer."""

    __tablename__ = "webhook_secrets"

    position: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    endpoint_id: Mapped[str] = mapped_column(
        ForeignKey("webhook_endpoints.id", ondelete="CASCADE"), index=True
    )
    secret: Mapped[str]
    expires_at: Mapped[datetime | None]


class DeliveryRow(Row):
    """One event for one endpoint: what is to be sent, and how that went."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        CheckConstraint(f"status in {DELIVERY_STATUSES}", name="status"),
        CheckConstraint("(status = 'pending') = (finished_at is null)", name="finished"),
        Index("ix_webhook_deliveries_due", "status", "due_at"),
        Index("ix_webhook_deliveries_endpoint", "endpoint_id", "position"),
    )

    event_id: Mapped[str] = mapped_column(primary_key=True)
    endpoint_id: Mapped[str] = mapped_column(
        ForeignKey("webhook_endpoints.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    type: Mapped[str]
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    status: Mapped[str] = mapped_column(default="pending", server_default="pending")
    attempts: Mapped[int] = mapped_column(default=0, server_default="0")
    due_at: Mapped[datetime | None]
    """When it is to be sent next; null: now. While it is being sent, when it counts as not sent."""
    last_status_code: Mapped[int | None]
    last_problem: Mapped[str | None]
    finished_at: Mapped[datetime | None] = mapped_column(index=True)

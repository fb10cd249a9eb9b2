"""Webhook endpoints, their secrets, and what is to be delivered to them.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

TIME = sa.DateTime(timezone=True)
NOW = sa.text("now()")
ENDPOINT = "webhook_endpoints.id"


def upgrade() -> None:
    _endpoints()
    _secrets()
    _deliveries()


def _endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("event_types", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("updated_at", TIME, server_default=NOW, nullable=False),
        sa.Column("disabled_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_webhook_endpoints_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_endpoints")),
        sa.UniqueConstraint("position", name=op.f("uq_webhook_endpoints_position")),
    )
    op.create_index(op.f("ix_webhook_endpoints_project_id"), "webhook_endpoints", ["project_id"])


def _secrets() -> None:
    op.create_table(
        "webhook_secrets",
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            [ENDPOINT],
            name=op.f("fk_webhook_secrets_endpoint_id_webhook_endpoints"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_webhook_secrets")),
    )
    op.create_index(op.f("ix_webhook_secrets_endpoint_id"), "webhook_secrets", ["endpoint_id"])


def _deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("endpoint_id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", TIME, server_default=NOW, nullable=False),
        sa.Column("status", sa.Text(), server_default="pending", nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("due_at", TIME, nullable=True),
        sa.Column("last_status_code", sa.BigInteger(), nullable=True),
        sa.Column("last_problem", sa.Text(), nullable=True),
        sa.Column("finished_at", TIME, nullable=True),
        sa.CheckConstraint(
            "status in ('pending', 'delivered', 'given_up')",
            name=op.f("ck_webhook_deliveries_status"),
        ),
        sa.CheckConstraint(
            "(status = 'pending') = (finished_at is null)",
            name=op.f("ck_webhook_deliveries_finished"),
        ),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            [ENDPOINT],
            name=op.f("fk_webhook_deliveries_endpoint_id_webhook_endpoints"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("event_id", "endpoint_id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("position", name=op.f("uq_webhook_deliveries_position")),
    )
    op.create_index("ix_webhook_deliveries_due", "webhook_deliveries", ["status", "due_at"])
    op.create_index(
        "ix_webhook_deliveries_endpoint", "webhook_deliveries", ["endpoint_id", "position"]
    )
    op.create_index(
        op.f("ix_webhook_deliveries_finished_at"), "webhook_deliveries", ["finished_at"]
    )


def downgrade() -> None:
    for table in ("webhook_deliveries", "webhook_secrets", "webhook_endpoints"):
        op.drop_table(table)

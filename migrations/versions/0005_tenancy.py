"""Organisations, scopes and former secrets of keys, quotas of projects, and a log of writes.

Keys that exist get every scope, which is what they could do before.

Revision ID: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"

TIME = sa.DateTime(timezone=True)
TEXT = sa.Text()
EVERY_SCOPE = sa.text("'{read,submit,admin}'")
QUOTAS = "('running_jobs', 'queued_jobs', 'stored_bytes', 'device_seconds')"
OWNER = "fk_projects_organization_id_organizations"


def upgrade() -> None:
    _organizations()
    _keys()
    op.create_table(
        "quotas",
        sa.Column("project_id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(f"name in {QUOTAS}", name=op.f("ck_quotas_name")),
        sa.CheckConstraint("most >= 0", name=op.f("ck_quotas_most")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_quotas_project_id_projects")
        ),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_quotas")),
    )
    devices = sa.Column("devices", sa.BigInteger(), server_default="1", nullable=False)
    op.add_column("attempts", devices)
    _audit()


def _organizations() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_organizations")),
        sa.UniqueConstraint("name", name=op.f("uq_organizations_name")),
    )
    op.execute("insert into organizations (id, name) values ('org-castalia', 'default')")
    op.execute(
        "insert into organizations (id, name) select distinct organization_id, organization_id "
        "from projects where organization_id <> 'org-castalia'"
    )
    op.create_foreign_key(op.f(OWNER), "projects", "organizations", ["organization_id"], ["id"])
    op.create_index(op.f("ix_projects_organization_id"), "projects", ["organization_id"])


def _keys() -> None:
    scopes: sa.Column[list[str]] = sa.Column(
        "scopes", postgresql.ARRAY(TEXT), server_default=EVERY_SCOPE, nullable=False
    )
    op.add_column("keys", scopes)
    op.create_check_constraint(
        op.f("ck_keys_scopes"),
        "keys",
        "scopes <@ '{read,submit,admin}' and cardinality(scopes) > 0",
    )
    op.create_table(
        "former_secrets",
        sa.Column("secret_sha256", TEXT, nullable=False),
        sa.Column("key_id", TEXT, nullable=False),
        sa.Column("valid_until", TIME, nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["keys.id"], name=op.f("fk_former_secrets_key_id_keys")
        ),
        sa.PrimaryKeyConstraint("secret_sha256", name=op.f("pk_former_secrets")),
    )
    op.create_index(op.f("ix_former_secrets_key_id"), "former_secrets", ["key_id"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("at", TIME, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("organization_id", TEXT, nullable=True),
        sa.Column("project_id", TEXT, nullable=True),
        sa.Column("key_id", TEXT, nullable=True),
        sa.Column("request_id", TEXT, nullable=False),
        sa.Column("client", TEXT, nullable=True),
        sa.Column("method", TEXT, nullable=False),
        sa.Column("route", TEXT, nullable=False),
        sa.Column("object_id", TEXT, nullable=True),
        sa.Column("status", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_at"), "audit", ["at"])


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_column("attempts", "devices")
    op.drop_table("quotas")
    op.drop_table("former_secrets")
    op.drop_constraint(op.f("ck_keys_scopes"), "keys")
    op.drop_column("keys", "scopes")
    op.drop_index(op.f("ix_projects_organization_id"), table_name="projects")
    op.drop_constraint(op.f(OWNER), "projects")
    op.drop_table("organizations")

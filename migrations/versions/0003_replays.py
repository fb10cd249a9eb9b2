"""Requests that must not be carried out twice.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body_sha256", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name=op.f("fk_replays_key_id_keys")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("fk_replays_job_id_jobs"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key_id", "name", name=op.f("pk_replays")),
    )
    op.create_index("ix_replays_body", "replays", ["key_id", "body_sha256"])


def downgrade() -> None:
    op.drop_table("replays")

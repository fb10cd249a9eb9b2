"""What jobs leave behind: result files, models that can be deleted, checkpoints that are shared.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0008"
down_revision = "0007"

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("result_file_id", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("model_deleted_at", TIME, nullable=True))
    op.create_index(
        "ix_jobs_without_results",
        "jobs",
        ["position"],
        postgresql_where=sa.text("result_file_id is null and step > 0"),
    )
    op.add_column("workers", sa.Column("limits", JSONB(), nullable=True))
    op.create_table(
        "checkpoint_permissions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("checkpoint_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["checkpoint_id"],
            ["checkpoints.id"],
            name=op.f("fk_checkpoint_permissions_checkpoint_id_checkpoints"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
            name=op.f("fk_checkpoint_permissions_project_id_projects"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_checkpoint_permissions")),
        sa.UniqueConstraint("position", name=op.f("uq_checkpoint_permissions_position")),
        sa.UniqueConstraint(
            "checkpoint_id",
            "project_id",
            name=op.f("uq_checkpoint_permissions_checkpoint_id_project_id"),
        ),
    )


def downgrade() -> None:
    op.drop_table("checkpoint_permissions")
    op.drop_column("workers", "limits")
    op.drop_index("ix_jobs_without_results", "jobs")
    op.drop_column("jobs", "model_deleted_at")
    op.drop_column("jobs", "result_file_id")

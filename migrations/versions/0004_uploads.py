"""Uploads that arrive in parts.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TIME = sa.DateTime(timezone=True)
STATUSES = "('pending', 'completed', 'cancelled', 'expired')"


def upgrade() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("file_id", sa.Text(), nullable=True),
        sa.CheckConstraint(f"status in {STATUSES}", name=op.f("ck_uploads_status")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_uploads_project_id_projects")
        ),
        sa.ForeignKeyConstraint(
            ["file_id"], ["files.id"], name=op.f("fk_uploads_file_id_files"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
    )
    op.create_index(op.f("ix_uploads_project_id"), "uploads", ["project_id"])
    op.create_table(
        "upload_parts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("upload_id", sa.Text(), nullable=False),
        sa.Column("blob_id", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["upload_id"],
            ["uploads.id"],
            name=op.f("fk_upload_parts_upload_id_uploads"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["blob_id"], ["blobs.id"], name=op.f("fk_upload_parts_blob_id_blobs")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_upload_parts")),
        sa.UniqueConstraint("position", name=op.f("uq_upload_parts_position")),
    )
    for column in ("upload_id", "blob_id"):
        op.create_index(op.f(f"ix_upload_parts_{column}"), "upload_parts", [column])


def downgrade() -> None:
    op.drop_table("upload_parts")
    op.drop_table("uploads")

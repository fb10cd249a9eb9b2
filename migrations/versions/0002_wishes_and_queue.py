"""Pauses, priorities, retries, memory plans, and the workers that are there.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

TIME = sa.DateTime(timezone=True)
BEFORE = "('validating_files', 'queued', 'running', 'succeeded', 'failed', 'cancelled')"
NOW = "('validating_files', 'queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')"


def upgrade() -> None:
    op.drop_constraint(op.f("ck_jobs_status"), "jobs")
    op.create_check_constraint(op.f("ck_jobs_status"), "jobs", f"status in {NOW}")
    for name in ("priority", "failures"):
        column = sa.Column(name, sa.BigInteger(), server_default="0", nullable=False)
        op.add_column("jobs", column)
    for name in ("pause_requested_at", "not_before"):
        op.add_column("jobs", sa.Column(name, TIME, nullable=True))
    for name in ("predicted_bytes", "measured_bytes"):
        op.add_column("jobs", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("served_at", TIME, nullable=True))
    op.create_table(
        "workers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("device_bytes", sa.BigInteger(), nullable=True),
        sa.Column("started_at", TIME, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("seen_at", TIME, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_workers")),
    )


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_column("projects", "served_at")
    for name in ("measured_bytes", "predicted_bytes", "not_before", "pause_requested_at"):
        op.drop_column("jobs", name)
    for name in ("failures", "priority"):
        op.drop_column("jobs", name)
    op.execute("update jobs set status = 'cancelled', finished_at = now() where status = 'paused'")
    op.drop_constraint(op.f("ck_jobs_status"), "jobs")
    op.create_check_constraint(op.f("ck_jobs_status"), "jobs", f"status in {BEFORE}")

"""How many devices a worker can give to one job.

Revision ID: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column(
        "workers", sa.Column("devices", sa.BigInteger(), server_default="1", nullable=False)
    )


def downgrade() -> None:
    op.drop_column("workers", "devices")

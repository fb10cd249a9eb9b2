"""What device an attempt ran on, so that its speed can be told of the next one.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("device", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("attempts", "device")

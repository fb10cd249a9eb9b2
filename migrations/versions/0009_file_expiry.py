"""Files that are there for a time.

Revision ID: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("files", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("uploads", sa.Column("file_lifetime_s", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("uploads", "file_lifetime_s")
    op.drop_column("files", "expires_at")

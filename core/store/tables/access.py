"""Organisations, their projects, and the keys that open them. A secret is kept only as a hash."""

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Text, func, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row

QUOTA_NAMES = ("running_jobs", "queued_jobs", "stored_bytes", "device_seconds")


class OrganizationRow(Row):
    """Who owns projects."""

    __tablename__ = "organizations"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class ProjectRow(Row):
    """The tenant: every file and job belongs to one."""

    __tablename__ = "projects"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    served_at: Mapped[datetime | None]
    """When a worker last took a job of it."""


class QuotaRow(Row):
    """A project's own word on a quota, in place of the service's; ``most`` null: unlimited."""

    __tablename__ = "quotas"
    __table_args__ = (
        CheckConstraint(f"name in {QUOTA_NAMES}", name="name"),
        CheckConstraint("most >= 0", name="most"),
    )

    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    most: Mapped[int | None]


class KeyRow(Row):
    """A bearer key of a project. ``hint`` is the tail of the secret, enough to tell keys apart."""

    __tablename__ = "keys"
    __table_args__ = (
        CheckConstraint(
            "scopes <@ '{read,submit,admin}' and cardinality(scopes) > 0", name="scopes"
        ),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    scopes: Mapped[list[str]] = mapped_column(
        ARRAY(Text()), server_default=text("'{read,submit,admin}'")
    )
    """What it was given; which scopes that comes to is told by `core.store.keys`."""
    secret_sha256: Mapped[str] = mapped_column(unique=True)
    hint: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]


class FormerSecretRow(Row):
    """A secret that a key had before it was rotated. Kept for good, so that it never becomes a key again."""

    __tablename__ = "former_secrets"

    secret_sha256: Mapped[str] = mapped_column(primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"), index=True)
    valid_until: Mapped[datetime]

"""The tables, one module a noun. Importing this package makes all of them known to the metadata."""

from core.store.tables.access import (
    FormerSecretRow,
    KeyRow,
    OrganizationRow,
    ProjectRow,
    QuotaRow,
)
from core.store.tables.artifacts import BlobPieceRow, BlobRow, FileRow
from core.store.tables.audit import AuditRow
from core.store.tables.jobs import AttemptRow, CheckpointRow, EventRow, JobRow, MetricRow
from core.store.tables.metadata import Row
from core.store.tables.permissions import PermissionRow
from core.store.tables.replays import ReplayRow
from core.store.tables.uploads import PartRow, UploadRow
from core.store.tables.webhooks import DeliveryRow, EndpointRow, SigningSecretRow
from core.store.tables.workers import WorkerRow

__all__ = [
    "AttemptRow",
    "AuditRow",
    "BlobPieceRow",
    "BlobRow",
    "CheckpointRow",
    "DeliveryRow",
    "EndpointRow",
    "EventRow",
    "FileRow",
    "FormerSecretRow",
    "JobRow",
    "KeyRow",
    "MetricRow",
    "OrganizationRow",
    "PartRow",
    "PermissionRow",
    "ProjectRow",
    "QuotaRow",
    "ReplayRow",
    "Row",
    "SigningSecretRow",
    "UploadRow",
    "WorkerRow",
]

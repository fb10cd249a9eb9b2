"""The tables, one module a noun. Importing this package makes all of them known to the metadata."""

from core.store.tables.access import KeyRow, ProjectRow
from core.store.tables.artifacts import BlobPieceRow, BlobRow, FileRow
from core.store.tables.jobs import AttemptRow, CheckpointRow, EventRow, JobRow, MetricRow
from core.store.tables.metadata import Row
from core.store.tables.permissions import PermissionRow
from core.store.tables.replays import ReplayRow
from core.store.tables.uploads import PartRow, UploadRow
from core.store.tables.workers import WorkerRow

__all__ = [
    "AttemptRow",
    "BlobPieceRow",
    "BlobRow",
    "CheckpointRow",
    "EventRow",
    "FileRow",
    "JobRow",
    "KeyRow",
    "MetricRow",
    "PartRow",
    "PermissionRow",
    "ProjectRow",
    "ReplayRow",
    "Row",
    "UploadRow",
    "WorkerRow",
]

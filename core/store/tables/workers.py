"""The workers that are there."""

from datetime import datetime
from typing import Any

from sqlalchemy import func
from sqlalchemy.orm import Mapped, mapped_column

from core.store.tables.metadata import Row


class WorkerRow(Row):
    """One worker process, as it last said of itself."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str]
    device: Mapped[str]
    device_bytes: Mapped[int | None]
    """Memory that a trainer on one of its devices can have; null: not known."""
    devices: Mapped[int] = mapped_column(default=1, server_default="1")
    """How many of them it gives to one job at the most."""
    limits: Mapped[dict[str, Any] | None]
    """The longest contexts of each base model there, as far as they are known."""
    started_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())

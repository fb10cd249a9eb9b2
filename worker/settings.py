"""What a worker must be told beyond what every process is: folders and patience."""

from pathlib import Path

from pydantic import Field

from core.spec.run import CACHE_BYTES
from core.store.settings import ServiceSettings


class WorkerSettings(ServiceSettings):
    """Read from ``CASTALIA_*``. Times are seconds."""

    runs_dir: Path = Field(Path("runs"), description="Where run directories are laid out.")
    cache_dir: Path = Field(
        Path("cache"), description="Where encoded rows are kept for other jobs."
    )
    cache_bytes: int = Field(
        CACHE_BYTES, ge=0, description="The most that is kept there; 0: nothing."
    )
    lease_s: float = Field(60, gt=0, description="A worker unheard for so long has lost its job.")
    poll_s: float = Field(0.5, gt=0, description="How often a run's events are read.")
    sweep_s: float = Field(2, gt=0, description="How often the janitor looks.")
    ring_again_s: float = Field(30, gt=0, description="A ring that nobody answered is repeated.")
    stop_grace_s: float = Field(
        60, gt=0, description="How long a trainer may take to stop before it is killed."
    )
    max_attempts: int = Field(5, ge=1, description="Workers that a job may lose before it fails.")
    orphan_blob_s: float = Field(
        3600, gt=0, description="Age at which a blob that no file names is deleted."
    )

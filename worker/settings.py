"""What a worker must be told beyond what every process is: folders and patience."""

from pathlib import Path

from pydantic import Field

from core.spec.parallel import MOST_DEVICES
from core.spec.run import CACHE_BYTES
from core.store.attempts import Retries
from core.store.placement import FEWER_AFTER_S
from core.store.settings import ServiceSettings
from core.webhooks.addresses import AllowSetting
from worker.pulse import StallLimits


class WorkerSettings(ServiceSettings):
    """Read from ``CASTALIA_*``. Times are seconds."""

    runs_dir: Path = Field(Path("runs"), description="Where run directories are laid out.")
    cache_dir: Path = Field(
        Path("cache"), description="Where encoded rows are kept for other jobs."
    )
    cache_bytes: int = Field(
        CACHE_BYTES, ge=0, description="The most that is kept there; 0: nothing."
    )
    device_bytes: int | None = Field(
        None, gt=0, description="Memory that a trainer can have; unless given, it is looked for."
    )
    devices_per_job: int = Field(
        1, ge=1, le=MOST_DEVICES, description="Devices that each slot of a worker owns."
    )
    fewer_devices_after_s: float = Field(
        FEWER_AFTER_S,
        ge=0,
        description="How long a job that has begun waits for as many devices as it asked for.",
    )
    lease_s: float = Field(60, gt=0, description="A worker unheard for so long has lost its job.")
    poll_s: float = Field(0.5, gt=0, description="How often a run's events are read.")
    sweep_s: float = Field(2, gt=0, description="How often the janitor looks.")
    ring_again_s: float = Field(30, gt=0, description="A ring that nobody answered is repeated.")
    stop_grace_s: float = Field(
        60, gt=0, description="How long a trainer may take to stop before it is killed."
    )
    start_limit_s: float = Field(
        3600, gt=0, description="How long a run may be silent before its first step is done."
    )
    stall_floor_s: float = Field(
        1800, gt=0, description="How long a run may be silent later, at the least."
    )
    stall_factor: float = Field(
        10,
        ge=1,
        description="A run has stalled that is silent for so many times its longest silence.",
    )
    upload_limit_s: float = Field(
        1800,
        gt=0,
        description="An artifact store that takes or gives nothing for so long is given up.",
    )
    chat_idle_s: float = Field(
        600, gt=0, description="A model that nobody talks to for so long leaves the memory."
    )
    max_attempts: int = Field(
        5, ge=1, description="Failures without a fault of the user's, since the last checkpoint."
    )
    retry_first_s: float = Field(
        2, ge=0, description="Rest after such a failure; doubled with each further one."
    )
    retry_longest_s: float = Field(300, ge=0, description="The longest such rest.")
    orphan_blob_s: float = Field(
        3600, gt=0, description="Age at which a blob that no file names is deleted."
    )
    audit_days: float = Field(
        365,
        gt=0,
        description="Days for which the log of writes goes back; older ones are forgotten.",
    )
    webhook_allow: AllowSetting = ""
    webhook_kept_s: float = Field(
        30 * 86_400, gt=0, description="How long it is kept what was told to webhooks, and how."
    )

    orphan_run_s: float = Field(
        3600, gt=0, description="Age at which a run directory that no lease holds is deleted."
    )

    @property
    def stall_limits(self) -> StallLimits:
        """What silence of a run is too long."""
        return StallLimits(self.start_limit_s, self.stall_floor_s, self.stall_factor)

    @property
    def retries(self) -> Retries:
        """How often and when a job is tried again."""
        return Retries(self.max_attempts, self.retry_first_s, self.retry_longest_s)

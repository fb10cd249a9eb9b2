"""What every process of the service must be told, read from ``CASTALIA_*`` in the environment."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from core.store.quotas import Quotas


class ServiceSettings(BaseSettings):
    """Where the database, the broker, the artifacts and the base models are."""

    model_config = SettingsConfigDict(env_prefix="CASTALIA_", frozen=True)

    database_url: str = Field(description="postgresql://user:password@host:port/name")
    broker_url: str = Field(description="redis://:password@host:port/0")
    artifacts_url: str = Field(
        "postgres:",
        description="postgres: (rows), or an fsspec URL such as file:///srv/a or s3://bucket/a",
    )
    models_dir: Path = Field(
        Path("models"),
        description="Folder of base models: NAME/ or ORGANISATION/NAME/, each with config.json",
    )
    quota_running_jobs: int | None = Field(None, ge=0, description="Jobs of a project at once.")
    quota_queued_jobs: int | None = Field(None, ge=0, description="Jobs of it that wait.")
    quota_stored_bytes: int | None = Field(None, ge=0, description="Bytes of its files.")
    quota_device_seconds: int | None = Field(
        None, ge=0, description="Seconds of devices that it may use from midnight to midnight UTC."
    )

    @property
    def quotas(self) -> Quotas:
        """Of every project that has none of its own; None: no limit."""
        return Quotas(
            running_jobs=self.quota_running_jobs,
            queued_jobs=self.quota_queued_jobs,
            stored_bytes=self.quota_stored_bytes,
            device_seconds=self.quota_device_seconds,
        )

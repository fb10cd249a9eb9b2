"""What every process of the service must be told, read from ``CASTALIA_*`` in the environment."""

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from core.store.quotas import Quotas

PINNED = re.compile(r"\w[\w.-]*/\w[\w.-]*@[0-9a-f]{40}", re.ASCII)
"""A model of a hub, at a commit."""


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

    allowed_models: Annotated[tuple[str, ...] | None, NoDecode] = Field(
        None,
        description="Names of the base models that may be used, commas between; unset: all in the folder.",
    )

    chat_limit_s: float = Field(
        120.0, gt=0.0, description="A chat of which nothing is heard for so long is given up."
    )

    @field_validator("allowed_models", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        return tuple(re.split(r"[\s,]+", given.strip(" ,"))) if isinstance(given, str) else given

    @field_validator("allowed_models")
    @classmethod
    def _only_pinned(cls, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in names or ():
            if "@" in name and PINNED.fullmatch(name) is None:
                raise ValueError(
                    f"'{name}' is not pinned: a branch or tag can move; write ORGANISATION/NAME@COMMIT "
                    "with the commit's 40 hexadecimal digits"
                )
        return names

    @property
    def quotas(self) -> Quotas:
        """Of every project that has none of its own; None: no limit."""
        return Quotas(
            running_jobs=self.quota_running_jobs,
            queued_jobs=self.quota_queued_jobs,
            stored_bytes=self.quota_stored_bytes,
            device_seconds=self.quota_device_seconds,
        )

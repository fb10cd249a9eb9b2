"""What every process of the service must be told, read from ``CASTALIA_*`` in the environment."""

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


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

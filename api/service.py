"""What the routes work with, made once when the process starts."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request

from api.doorbell import Doorbell
from api.rates import Rates
from api.settings import ApiSettings
from core.models.catalog import Catalog
from core.store.blobs import Blobs
from core.store.database import Database
from core.store.objects import open_blobs
from core.webhooks.addresses import AllowList
from core.webhooks.send import Sender

TRUSTED_S = 1.0
"""A connection that a request gave back a moment ago is taken to live: pollers come by the hundred."""


@dataclass(frozen=True, slots=True)
class Service:
    """Database, blobs, doorbell, models, counts of requests, what tries webhooks, and settings."""

    settings: ApiSettings
    database: Database
    blobs: Blobs
    doorbell: Doorbell
    catalog: Catalog
    rates: Rates
    sender: Sender

    @classmethod
    def open(cls, settings: ApiSettings) -> Self:
        """Nothing is connected yet: a database that is down must not keep the API from starting."""
        database = Database(settings.database_url, trusted_s=TRUSTED_S)
        return cls(
            settings=settings,
            database=database,
            blobs=open_blobs(database, settings.artifacts_url),
            doorbell=Doorbell(settings.broker_url),
            rates=Rates(settings.broker_url, settings.requests_per_minute),
            sender=Sender(AllowList.parse(settings.webhook_allow)),
            catalog=Catalog(settings.models_dir, settings.allowed_models),
        )

    def close(self) -> None:
        """Give all connections back."""
        self.rates.close()
        self.database.close()


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]

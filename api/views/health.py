"""Whether the service lives and can serve, as monitors read it."""

from typing import Literal

from pydantic import BaseModel


class LiveView(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ReadyView(BaseModel):
    """``status`` follows the database; a broker that is away delays jobs and refuses none."""

    status: Literal["ok", "unavailable"]
    database: Literal["ok", "needs migration", "unavailable"]
    broker: Literal["ok", "unavailable"]

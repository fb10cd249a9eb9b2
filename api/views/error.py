"""The error envelope, as the served OpenAPI describes it."""

from typing import Any

from pydantic import BaseModel


class ErrorBody(BaseModel):
    """What `api.errors` renders."""

    message: str
    type: str
    param: str | None
    code: str | None
    hint: str | None = None
    details: list[dict[str, Any]] | None = None


class ErrorView(BaseModel):
    """Every answer that is not a success."""

    error: ErrorBody

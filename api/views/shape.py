"""What all answers share: unix seconds, and OpenAI's list envelope."""

from collections.abc import Sequence
from datetime import datetime
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

Item = TypeVar("Item", bound=BaseModel)


class ListView(BaseModel, Generic[Item]):
    """One page. ``first_id`` and ``last_id`` are null for an empty page."""

    object: Literal["list"] = "list"
    data: Sequence[Item]
    has_more: bool
    first_id: str | None = None
    last_id: str | None = None


class DeletedView(BaseModel):
    """Something is gone."""

    id: str
    object: str
    deleted: Literal[True] = True


def unix(time: datetime | None) -> int | None:
    """Whole seconds since 1970, or None."""
    return None if time is None else int(time.timestamp())


def list_of(items: Sequence[Item], has_more: bool) -> ListView[Item]:  # noqa: FBT001
    """The envelope around one page of items that have ids."""
    ids = [getattr(item, "id") for item in items]  # noqa: B009
    return ListView(
        data=items,
        has_more=has_more,
        first_id=ids[0] if ids else None,
        last_id=ids[-1] if ids else None,
    )

"""Pages by the last id seen: stable while rows are added, whatever the clock does."""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.store.errors import NotFound

Order = Literal["asc", "desc"]
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Some rows, and whether there are more after the last of them."""

    rows: list[R]
    has_more: bool


def page_of(
    session: Session,
    query: Select[R],
    id_column: InstrumentedAttribute[str],
    position: InstrumentedAttribute[int],
    *,
    after: str | None,
    limit: int,
    order: Order = "desc",
) -> Page[R]:
    """The ``limit`` rows of ``query`` that follow the row ``after``, by ``position``.

    Raises NotFound if ``after`` is not a row of the query itself, so a page never leaks a foreign id.
    """
    if after is not None:
        query = query.where(_beyond(session, query, id_column, position, after, order))
    direction = position.desc() if order == "desc" else position.asc()
    rows = list(session.scalars(query.order_by(direction).limit(limit + 1)))
    return Page(rows[:limit], len(rows) > limit)


def _beyond(
    session: Session,
    query: Select[Any],
    id_column: InstrumentedAttribute[str],
    position: InstrumentedAttribute[int],
    after: str,
    order: Order,
) -> Any:
    found = query.where(id_column == after).with_only_columns(position)
    start = session.scalar(found)
    if start is None:
        raise NotFound("item to list after", after)
    return position < start if order == "desc" else position > start

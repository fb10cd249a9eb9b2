"""What all tables share: names of constraints that migrations can rely on, and the column types in use."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, MetaData
from sqlalchemy.orm import DeclarativeBase

from core.store.tables.text import StoredJson, StoredText

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Row(DeclarativeBase):
    """A row of the database."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {
        str: StoredText(),
        int: BigInteger(),
        datetime: DateTime(timezone=True),
        dict[str, Any]: StoredJson(),
    }

"""The database as the command line meets it: opened for a while, with errors of one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from castalia.errors import CastaliaError
from castalia.settings import read_settings
from core.store.database import Database, DatabaseDown
from core.store.settings import ServiceSettings
from migrations import is_current


class DatabaseUnusableError(CastaliaError):
    """A database that cannot be reached, or whose URL is none."""

    exit_code = 3


@contextmanager
def open_database(*, migrating: bool = False) -> Iterator[Database]:
    """The database of CASTALIA_DATABASE_URL, with the schema of this version unless ``migrating``.

    Raises DatabaseUnusableError, also from the block.
    """
    url = read_settings(ServiceSettings).database_url
    try:
        database = Database(url)
    except ValueError as error:
        raise DatabaseUnusableError(str(error), "correct CASTALIA_DATABASE_URL") from None
    try:
        if not migrating and not is_current(database.engine):
            raise DatabaseUnusableError(
                "the database's schema is not that of this version", "run `castalia migrate`"
            )
        yield database
    except DatabaseDown as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise DatabaseUnusableError(
            f"the database cannot be reached ({reason})",
            "start it, or correct CASTALIA_DATABASE_URL",
        ) from None
    finally:
        database.close()

"""Alembic's migrations, and the two questions that a process asks of them.

They run under an advisory lock, so that several starting processes migrate once, and with lock and statement
time-outs, so that a migration which cannot get its lock gives up instead of stopping the service.
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

FOLDER = Path(__file__).parent


def upgrade(engine: Engine) -> None:
    """Bring the database to the newest schema; nothing happens if it is there."""
    config = _config()
    config.attributes["engine"] = engine
    command.upgrade(config, "head")


def is_current(engine: Engine) -> bool:
    """Whether the database has exactly the schema that this code was written for."""
    with engine.connect() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
    return current == ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    return config

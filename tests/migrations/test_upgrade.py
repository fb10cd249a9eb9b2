"""Any number of starting processes bring the schema up once."""

import subprocess
import sys

import pytest
from alembic import command
from sqlalchemy import inspect

import migrations
from core.store.database import Database
from core.store.tables import Row

TABLES = {*Row.metadata.tables, "alembic_version"}


@pytest.fixture
def empty(empty_database_url):
    database = Database(empty_database_url)
    yield database
    database.close()


def tables(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names())


def test_an_empty_database_gets_every_table(empty):
    assert migrations.is_current(empty.engine) is False
    migrations.upgrade(empty.engine)
    assert tables(empty) == TABLES
    assert migrations.is_current(empty.engine) is True


def test_upgrading_twice_changes_nothing(empty):
    migrations.upgrade(empty.engine)
    migrations.upgrade(empty.engine)
    assert migrations.is_current(empty.engine) is True


def test_processes_that_start_at_once_migrate_once(empty, empty_database_url):
    code = (
        "import sys, migrations; from core.store.database import Database;"
        "migrations.upgrade(Database(sys.argv[1]).engine)"
    )
    line = [sys.executable, "-c", code, empty_database_url]
    running = [subprocess.Popen(line, stderr=subprocess.PIPE) for _ in range(3)]
    ends = [(process.communicate()[1], process.returncode) for process in running]
    assert [code for _, code in ends] == [0, 0, 0], ends
    assert migrations.is_current(empty.engine) is True


def test_down_and_up_again_is_the_same_schema(empty):
    migrations.upgrade(empty.engine)
    config = migrations._config()
    config.attributes["engine"] = empty.engine
    command.downgrade(config, "base")
    assert tables(empty) == {"alembic_version"}
    assert migrations.is_current(empty.engine) is False
    migrations.upgrade(empty.engine)
    assert tables(empty) == TABLES

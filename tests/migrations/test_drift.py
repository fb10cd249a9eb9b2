"""Tables and migrations say the same, in names, types and constraints."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from core.store.tables import Row

OPTIONS = {"compare_type": True, "compare_server_default": True}


def test_there_is_no_drift_between_tables_and_migrations(database):
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=OPTIONS)
        assert compare_metadata(context, Row.metadata) == []


@pytest.mark.parametrize("table", Row.metadata.sorted_tables, ids=str)
def test_check_constraints_are_those_of_the_tables(database, table):
    declared = {c.name for c in table.constraints if type(c).__name__ == "CheckConstraint"}
    found = {c["name"] for c in inspect(database.engine).get_check_constraints(table.name)}
    assert found == declared


def test_the_alembic_command_finds_the_database_and_no_drift(database_url):
    ended = subprocess.run(
        [sys.executable, "-m", "alembic", "check"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "CASTALIA_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "No new upgrade operations" in ended.stdout + ended.stderr

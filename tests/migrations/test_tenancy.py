"""What was there before organisations and scopes is there afterwards, and can do what it could."""

import pytest
from alembic import command
from sqlalchemy import text

import migrations
from core.store.database import Database
from core.store.keys import authenticate
from core.store.projects import list_projects

SHA256_OF_X = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"


@pytest.fixture
def before(empty_database_url):
    """A database of revision 0004 with a key in a project of an organisation that was only a word."""
    database = Database(empty_database_url)
    config = migrations._config()
    config.attributes["engine"] = database.engine
    command.upgrade(config, "0004")
    with database.begin() as session:
        session.execute(
            text("insert into projects (id, name, organization_id) values ('p', 'team', 'acme')")
        )
        session.execute(
            text(
                "insert into keys (id, project_id, name, secret_sha256, hint) "
                f"values ('k', 'p', 'n', '{SHA256_OF_X}', 'x')"
            )
        )
    yield database
    database.close()


def test_a_key_that_was_there_opens_its_project_with_every_scope(before):
    migrations.upgrade(before.engine)
    with before.begin() as session:
        principal = authenticate(session, "x")
        organizations = [name for _, name in list_projects(session)]
    assert (principal.project_id, principal.organization_id) == ("p", "acme")
    assert principal.may("admin")
    assert organizations == ["acme"]

"""`castalia keys` and `castalia migrate`: who may use the API, and one line for whatever is wrong."""

import re

import pytest

from castalia.ports import free_port
from core.store.keys import authenticate
from migrations import is_current

URLS = {"BROKER_URL": "redis://h/0"}
ON_THE_DATABASE = [("keys", "list"), ("keys", "create"), ("keys", "revoke", "key_x"), ("migrate",)]


@pytest.fixture
def keys(castalia, database_url):
    return lambda *words: castalia("keys", *words, DATABASE_URL=database_url, **URLS)


def test_a_key_that_was_made_opens_its_project_and_its_secret_is_all_of_stdout(keys, database):
    made = keys("create", "--name", "ci", "--project", "team")
    assert (made.code, made.out.count("\n")) == (0, 1)
    secret = made.out.strip()
    with database.begin() as session:
        principal = authenticate(session, secret)
    assert principal.key_id in made.err
    assert secret not in made.err


def test_keys_are_listed_without_their_secrets(keys):
    secrets = [keys("create", "--name", name).out.strip() for name in ("one", "two")]
    listed = keys("list").out
    lines = listed.splitlines()
    assert [line.split()[3] for line in lines] == ["one", "two"]
    assert all(re.match(r"key_\w+  active  default ", line) for line in lines)
    assert not any(secret in listed for secret in secrets)


def test_a_key_that_is_revoked_opens_nothing(keys, database):
    secret = keys("create").out.strip()
    key_id = keys("list").out.split()[0]
    assert keys("revoke", key_id).out == f"revoked {key_id}\n"
    assert keys("revoke", key_id).code == 0
    assert keys("list").out.split()[1] == "revoked"
    with database.begin() as session:
        assert authenticate(session, secret) is None


def test_a_key_that_is_not_there_cannot_be_revoked(keys):
    said = keys("revoke", "key_x")
    assert said.code == 1
    assert (
        said.err == "castalia: no key with id 'key_x' in this project: see `castalia keys list`\n"
    )


def test_migrate_brings_an_empty_database_up_to_date_and_may_be_repeated(
    castalia, empty_database_url
):
    from core.store.database import Database

    for _ in range(2):
        assert castalia("migrate", DATABASE_URL=empty_database_url, **URLS).code == 0
    database = Database(empty_database_url)
    assert is_current(database.engine)
    database.close()


@pytest.mark.parametrize("words", ON_THE_DATABASE, ids=" ".join)
def test_no_database_url_is_one_line_that_names_the_variable(castalia, words):
    said = castalia(*words)
    assert said.code == 2
    assert said.err.startswith("castalia: CASTALIA_DATABASE_URL is not set: set it to postgresql:")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("words", ON_THE_DATABASE, ids=" ".join)
def test_a_database_that_is_down_is_one_line(castalia, words):
    url = f"postgresql://u:p@127.0.0.1:{free_port()}/d"
    said = castalia(*words, DATABASE_URL=url, **URLS)
    assert said.code == 3
    assert said.err.startswith("castalia: the database cannot be reached (")
    assert said.err.endswith("start it, or correct CASTALIA_DATABASE_URL\n")
    assert said.err.count("\n") == 1


def test_a_url_of_another_kind_of_database_is_refused(castalia):
    said = castalia("keys", "list", DATABASE_URL="sqlite:///x.db", **URLS)
    assert (said.code, said.err.count("\n")) == (3, 1)
    assert "sqlite is not supported; use postgresql://" in said.err


def test_keys_of_a_database_without_the_schema_are_refused_in_one_line(
    castalia, empty_database_url
):
    said = castalia("keys", "create", DATABASE_URL=empty_database_url, **URLS)
    assert said.code == 3
    assert said.err.endswith("run `castalia migrate`\n")
    assert said.err.count("\n") == 1

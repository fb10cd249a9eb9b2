"""A key opens its project until it is revoked, and its secret is nowhere in the database."""

import pytest
from sqlalchemy import select, text

from core.store.errors import NotFound
from core.store.keys import (
    authenticate,
    create_key,
    ensure_key,
    list_keys,
    new_secret,
    project_named,
    revoke_key,
)
from core.store.tables import KeyRow, ProjectRow


@pytest.fixture
def make_key(database):
    def make(project: str = "default", name: str = "k") -> tuple[str, str]:
        secret = new_secret()
        with database.begin() as session:
            key = create_key(session, project_named(session, project), name, secret)
        return key.id, secret

    return make


def test_a_key_opens_its_own_project(database, make_key):
    (first, secret), (_, other) = make_key("a"), make_key("b")
    with database.begin() as session:
        mine, theirs = authenticate(session, secret), authenticate(session, other)
        assert mine.project_id == project_named(session, "a").id
    assert mine.key_id == first
    assert mine.project_id != theirs.project_id


@pytest.mark.parametrize(
    "change", [str.upper, lambda s: s[:-1], lambda s: s + "x", lambda s: s[:0]]
)
def test_anything_but_the_secret_opens_nothing(database, make_key, change):
    _, secret = make_key()
    with database.begin() as session:
        assert authenticate(session, change(secret)) is None


def test_the_secret_is_not_kept(database, make_key):
    _, secret = make_key()
    with database.begin() as session:
        kept = session.scalar(text("select row_to_json(keys)::text from keys"))
    assert secret not in kept
    assert secret.removeprefix("sk-castalia-")[:-4] not in kept
    assert f'"{secret[-4:]}"' in kept


def test_a_revoked_key_opens_nothing_and_keeps_its_first_time(database, make_key):
    key_id, secret = make_key()

    def revoked_at():
        with database.begin() as session:
            revoke_key(session, key_id)
            return session.scalar(select(KeyRow.revoked_at))

    first = revoked_at()
    assert first is not None
    assert revoked_at() == first
    with database.begin() as session:
        assert authenticate(session, secret) is None


def test_an_unknown_key_cannot_be_revoked(database):
    with pytest.raises(NotFound, match="key_none"), database.begin() as session:
        revoke_key(session, "key_none")


def test_keys_are_listed_with_their_projects_oldest_first(database, make_key):
    made = [make_key("a")[0], make_key("b")[0], make_key("a")[0]]
    with database.begin() as session:
        listed = [(key.id, project) for key, project in list_keys(session)]
    assert listed == list(zip(made, ["a", "b", "a"], strict=True))


def test_a_given_secret_becomes_a_key_once_and_stays_revoked(database):
    secret = new_secret()
    for _ in range(2):
        with database.begin() as session:
            ensure_key(session, "given", secret)
    with database.begin() as session:
        ((key, project),) = list_keys(session)
        assert project == "default"
        revoke_key(session, key.id)
        ensure_key(session, "given", secret)
        assert authenticate(session, secret) is None


def test_a_project_is_made_once(database):
    with database.begin() as session:
        assert project_named(session, "a").id == project_named(session, "a").id
        assert len(session.scalars(select(ProjectRow)).all()) == 1


def test_secrets_are_long_and_differ():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert min(map(len, secrets)) > 50

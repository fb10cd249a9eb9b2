"""A key opens its project until it is revoked, and its secret is nowhere in the database."""

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import IntegrityError

from core.store.errors import Conflict, NotFound
from core.store.keys import (
    authenticate,
    create_key,
    ensure_key,
    list_keys,
    new_secret,
    project_named,
    revoke_key,
    rotate_key,
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


@pytest.fixture
def opens(database):
    """Whose key a secret is, if it opens anything."""

    def ask(secret: str) -> str | None:
        with database.begin() as session:
            principal = authenticate(session, secret)
        return principal and principal.key_id

    return ask


@pytest.fixture
def rotate(database):
    def do(key_id: str, grace_s: float) -> str:
        secret = new_secret()
        with database.begin() as session:
            rotate_key(session, key_id, secret, grace_s=grace_s)
        return secret

    return do


def test_a_rotated_key_is_opened_by_both_secrets_until_the_grace_is_over(
    database, make_key, opens, rotate
):
    key_id, first = make_key()
    second = rotate(key_id, 60.0)
    assert [opens(first), opens(second)] == [key_id, key_id]
    with database.begin() as session:
        session.execute(text("update former_secrets set valid_until = now() - interval '1 s'"))
    assert [opens(first), opens(second)] == [None, key_id]


def test_no_former_secret_outlives_the_grace_of_a_later_rotation(make_key, opens, rotate):
    key_id, first = make_key()
    second = rotate(key_id, 3600.0)
    third = rotate(key_id, 0.0)
    assert [opens(first), opens(second), opens(third)] == [None, None, key_id]


def test_a_revoked_key_is_opened_by_none_of_its_secrets_and_not_rotated(
    database, make_key, opens, rotate
):
    key_id, first = make_key()
    second = rotate(key_id, 60.0)
    with database.begin() as session:
        revoke_key(session, key_id)
    assert [opens(first), opens(second)] == [None, None]
    with pytest.raises(Conflict, match="revoked"):
        rotate(key_id, 60.0)
    with pytest.raises(NotFound):
        rotate("key_none", 60.0)


def test_a_given_secret_that_was_rotated_away_does_not_come_back(database, opens, rotate):
    secret = new_secret()
    with database.begin() as session:
        ensure_key(session, "given", secret)
    rotate(opens(secret), 0.0)
    with database.begin() as session:
        ensure_key(session, "given", secret)
    assert opens(secret) is None


@pytest.mark.parametrize(
    ("given", "may"),
    [
        (["read"], [True, False, False]),
        (["submit"], [True, True, False]),
        (["read", "submit"], [True, True, False]),
        (["admin"], [True, True, True]),
    ],
    ids=str,
)
def test_a_scope_implies_the_lesser_ones(database, given, may):
    secret = new_secret()
    with database.begin() as session:
        create_key(session, project_named(session, "a"), "k", secret, given)
    with database.begin() as session:
        principal = authenticate(session, secret)
    assert [principal.may(scope) for scope in ("read", "submit", "admin")] == may


@pytest.mark.parametrize("given", [[], ["write"], ["read", "x"]], ids=str)
def test_a_key_without_a_scope_or_with_an_unknown_one_cannot_be(database, given):
    with pytest.raises(IntegrityError, match="ck_keys_scopes"), database.begin() as session:
        create_key(session, project_named(session, "a"), "k", new_secret(), given)


def test_a_project_is_made_once(database):
    with database.begin() as session:
        assert project_named(session, "a").id == project_named(session, "a").id
        assert len(session.scalars(select(ProjectRow)).all()) == 1


def test_secrets_are_long_and_differ():
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert min(map(len, secrets)) > 50

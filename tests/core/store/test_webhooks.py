"""Endpoints belong to a project, and their secrets sign for as long as they should."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from core.store.deliveries import disable_endpoint, secrets_of
from core.store.errors import Conflict, NotFound
from core.store.webhooks import (
    MOST_ENDPOINTS,
    MOST_SECRETS,
    create_endpoint,
    delete_endpoint,
    get_endpoint,
    list_endpoints,
    rotate_secret,
    update_endpoint,
)

URL, TYPES = "https://x.example/", ["fine_tuning.job.failed"]


@pytest.fixture
def call(database, project):
    """Calls a function of the store in a transaction of its own, as the project."""

    def do(function, *args, owner=project, **kwargs):
        with database.begin() as session:
            return function(session, owner, *args, **kwargs)

    return do


@pytest.fixture
def create(call):
    return lambda **more: call(create_endpoint, name="n", url=URL, event_types=TYPES, **more)


@pytest.fixture
def signing(database):
    def read(row, after_s=0.0):
        with database.begin() as session:
            return secrets_of(session, row.id, datetime.now(UTC) + timedelta(seconds=after_s))

    return read


def test_a_secret_is_32_bytes_that_nobody_else_has(create, signing):
    (row, secret), (_, other) = create(), create()
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32
    assert secret != other
    assert secret.endswith(row.hint)
    assert signing(row) == (secret,)


def test_a_rotated_secret_signs_on_for_a_day_if_asked(call, create, signing):
    row, old = create()
    changed, new = call(rotate_secret, row.id, keep_old=True)
    assert signing(row) == signing(row, 86_300) == (new, old)
    assert signing(row, 86_500) == (new,)
    assert new.endswith(changed.hint)
    assert changed.updated_at > row.updated_at


def test_each_of_several_kept_secrets_has_its_day(call, create, signing):
    row, first = create()
    second, third = (call(rotate_secret, row.id, keep_old=True)[1] for _ in range(2))
    assert signing(row) == (third, second, first)


def test_a_secret_that_is_not_kept_signs_no_more_nor_do_older_ones(call, create, signing):
    row, _ = create()
    call(rotate_secret, row.id, keep_old=True)
    _, new = call(rotate_secret, row.id, keep_old=False)
    assert signing(row) == (new,)


def test_only_so_many_secrets_sign_at_once(call, create, signing):
    row, _ = create()
    for _ in range(MOST_SECRETS - 1):
        call(rotate_secret, row.id, keep_old=True)
    with pytest.raises(Conflict, match="without keeping"):
        call(rotate_secret, row.id, keep_old=True)
    assert len(signing(row)) == MOST_SECRETS


def test_a_project_has_only_so_many_endpoints(call, create, other_project):
    rows = [create()[0] for _ in range(MOST_ENDPOINTS)]
    with pytest.raises(Conflict, match="delete one"):
        create()
    create(owner=other_project)
    call(delete_endpoint, rows[0].id)
    create()


def test_what_does_not_change_is_no_update(call, create):
    row, _ = create()
    same = call(update_endpoint, row.id, {"name": "n", "event_types": TYPES})
    assert same.updated_at == row.updated_at
    assert call(update_endpoint, row.id, {"name": "m"}).updated_at > row.updated_at


def test_a_url_opens_a_disabled_endpoint_again(database, call, create):
    row, _ = create()
    with database.begin() as session:
        disable_endpoint(session, row.id, datetime.now(UTC), 410)
    assert call(update_endpoint, row.id, {"name": "m"}).disabled_at is not None
    assert call(update_endpoint, row.id, {"url": URL}).disabled_at is None


def test_nothing_of_another_project_is_found(call, create, other_project):
    row, secret = create()
    for function, more in (
        (get_endpoint, ()),
        (update_endpoint, ({"name": "m"},)),
        (delete_endpoint, ()),
    ):
        with pytest.raises(NotFound):
            call(function, row.id, *more, owner=other_project)
    with pytest.raises(NotFound):
        call(rotate_secret, row.id, keep_old=False, owner=other_project)
    listed = call(list_endpoints, after=None, limit=9, owner=other_project)
    assert listed.rows == []
    assert call(get_endpoint, row.id).hint == secret[-4:]

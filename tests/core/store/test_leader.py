"""Of several that want to lead one does, and its successor leads as soon as it is gone."""

import pytest
from sqlalchemy import text

from core.store.database import Database, DatabaseDown
from core.store.leader import Leadership


@pytest.fixture
def candidates(database_url):
    databases = [Database(database_url) for _ in range(2)]
    yield [Leadership(database) for database in databases]
    for database in databases:
        database.close()


def test_one_leads_and_is_succeeded(candidates):
    first, second = candidates
    assert [first.held(), second.held(), first.held()] == [True, False, True]
    first.release()
    assert [second.held(), first.held()] == [True, False]
    second.release()


def test_a_leader_whose_connection_is_cut_is_succeeded_and_knows_it(candidates, database):
    first, second = candidates
    assert first.held()
    own = first._connection.scalar(text("select pg_backend_pid()"))
    with database.begin() as session:
        session.execute(text("select pg_terminate_backend(:own)"), {"own": own})
    with pytest.raises(DatabaseDown):
        first.held()
    assert second.held()
    assert first.held() is False
    second.release()

"""Events are 1, 2, 3 without gaps, whoever writes them at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select

from core.store.attempts import held_job
from core.store.events import add_event, list_events
from core.store.jobs import get_job
from core.store.tables import EventRow

WRITERS, EACH = 4, 10


@pytest.fixture
def sequences(database):
    def read(job_id: str) -> list[int]:
        query = select(EventRow.sequence).where(EventRow.job_id == job_id)
        with database.begin() as session:
            return list(session.scalars(query.order_by(EventRow.sequence)))

    return read


def test_a_new_job_tells_how_it_came_to_be(database, project, new_job):
    job_id = new_job()
    with database.begin() as session:
        page = list_events(session, get_job(session, project, job_id), after=None, limit=10)
    assert [event.data["code"] for event in page.rows] == ["job.queued", "job.created"]
    assert [event.sequence for event in page.rows] == [2, 1]
    assert page.has_more is False


def test_writers_at_the_same_time_leave_no_gap(database, lease, sequences):
    def write(name: int) -> None:
        for number in range(EACH):
            with database.begin() as session:
                add_event(session, held_job(session, lease), f"{name}.{number}", code="c")

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    written = sequences(lease.job_id)
    assert written == list(range(1, len(written) + 1))
    assert len(written) >= WRITERS * EACH


def test_a_transaction_that_fails_takes_its_number_back(database, lease, sequences):
    before = sequences(lease.job_id)
    with pytest.raises(ZeroDivisionError), database.begin() as session:  # noqa: PT012
        add_event(session, held_job(session, lease), "lost", code="c")
        session.flush()
        raise ZeroDivisionError
    assert sequences(lease.job_id) == before
    with database.begin() as session:
        add_event(session, held_job(session, lease), "kept", code="c")
    assert sequences(lease.job_id) == [*before, len(before) + 1]


def test_each_job_counts_for_itself(new_job, sequences):
    first, second = new_job(), new_job()
    assert sequences(first) == sequences(second) == [1, 2]


def test_an_events_data_always_carries_its_code(database, lease):
    with database.begin() as session:
        job = held_job(session, lease)
        add_event(session, job, "said", code="c", data={"step": 3})
        add_event(session, job, "said", code="d")
    with database.begin() as session:
        newest = list_events(session, job, after=None, limit=2).rows
    assert [event.data for event in newest] == [{"code": "d"}, {"code": "c", "step": 3}]

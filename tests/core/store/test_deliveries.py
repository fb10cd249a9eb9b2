"""What happens to a job is told in the same transaction, to those who asked, and sent until it is taken."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from core.spec.errors import JobError
from core.spec.webhook import DEFAULT_TYPES, EVENT_TYPES
from core.store.attempts import Retries, fail_attempt, stop_attempt, succeed_job
from core.store.checkpoints import add_checkpoint
from core.store.deliveries import (
    claim_deliveries,
    delivered,
    disable_endpoint,
    forget_old_deliveries,
    not_delivered,
)
from core.store.tables import DeliveryRow
from core.store.webhooks import create_endpoint, delete_endpoint, get_endpoint
from core.store.wishes import cancel_job, pause_job

NOW = datetime(2020, 1, 1, tzinfo=UTC)
HELD_S = 60.0
BAD = JobError(code="data_refused", message="m", fault="user")


@pytest.fixture
def add_endpoint(database, project):
    def add(owner=project, types=EVENT_TYPES):
        with database.begin() as session:
            row, _ = create_endpoint(
                session, owner, name="n", url="https://x.example/", event_types=types
            )
            return row.id

    return add


@pytest.fixture
def told(database):
    """(Endpoint, type, data) of everything in the outbox, oldest first."""

    def read():
        with database.begin() as session:
            rows = session.scalars(select(DeliveryRow).order_by(DeliveryRow.position)).all()
            return [(row.endpoint_id, row.type.rpartition(".")[2], row.data) for row in rows]

    return read


@pytest.fixture
def claim(database):
    def do(after_s=0.0, busy=(), most=9):
        with database.begin() as session:
            now = NOW + timedelta(seconds=after_s)
            return claim_deliveries(session, now, most=most, busy=busy, held_s=HELD_S)

    return do


@pytest.fixture
def write_down(database):
    def do(how, *args, **kwargs):
        with database.begin() as session:
            how(session, *args, **kwargs)

    return do


@pytest.fixture
def ended(database, project, new_job):
    """A job that was cancelled; its id."""

    def end():
        job_id = new_job()
        with database.begin() as session:
            cancel_job(session, project, job_id)
        return job_id

    return end


ENDINGS = {
    "succeeded": lambda session, lease: succeed_job(session, lease, trained_tokens=1),
    "failed": lambda session, lease: fail_attempt(session, lease, BAD, Retries()),
    "cancelled": lambda session, lease: stop_attempt(session, lease, "stopped"),
    "paused": lambda session, lease: stop_attempt(session, lease, "stopped"),
}


@pytest.mark.parametrize("kind", ENDINGS)
def test_each_ending_is_told_once(database, project, lease, add_endpoint, told, kind):
    endpoint = add_endpoint()
    with database.begin() as session:
        if kind in ("cancelled", "paused"):
            wish = {"cancelled": cancel_job, "paused": pause_job}[kind]
            wish(session, project, lease.job_id)
        ENDINGS[kind](session, lease)
    assert told() == [(endpoint, kind, {"id": lease.job_id})]


def test_an_ending_that_is_rolled_back_is_not_told(database, lease, add_endpoint, told):
    add_endpoint()
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=1)
        session.flush()
        session.rollback()
    assert told() == []


def test_a_job_that_fails_when_it_is_asked_for_is_told(new_job, add_endpoint, told):
    endpoint = add_endpoint()
    job_id = new_job("file-gone")
    assert told() == [(endpoint, "failed", {"id": job_id})]


def test_a_checkpoint_is_told_with_its_id(database, lease, add_endpoint, told):
    endpoint = add_endpoint()
    with database.begin() as session:
        saved = add_checkpoint(session, lease, step=1, metrics={}, files=[])
    data = {"id": lease.job_id, "checkpoint_id": saved}
    assert told() == [(endpoint, "checkpoint_saved", data)]


def test_only_who_asked_is_told(ended, add_endpoint, told, other_project):
    add_endpoint(types=["fine_tuning.job.succeeded"])
    add_endpoint(owner=other_project)
    mine = [add_endpoint(), add_endpoint(types=DEFAULT_TYPES)]
    ended()
    assert sorted(endpoint for endpoint, *_ in told()) == sorted(mine)


def test_several_endpoints_are_told_of_one_event(ended, add_endpoint, claim):
    add_endpoint(), add_endpoint()
    ended()
    first, second = claim()
    assert first.event == second.event
    assert first.endpoint_id != second.endpoint_id
    assert first.secrets != second.secrets


def test_what_is_claimed_is_nobody_else_s_until_it_was_held_long_enough(ended, add_endpoint, claim):
    add_endpoint()
    ended()
    [errand] = claim()
    assert claim(HELD_S - 1) == []
    [again] = claim(HELD_S)
    assert (errand.event, errand.attempt, again.attempt) == (again.event, 1, 2)


def test_an_endpoint_gets_one_at_a_time_the_oldest_first(ended, add_endpoint, claim, write_down):
    endpoint = add_endpoint()
    jobs = [ended(), ended()]
    [first] = claim()
    assert claim(busy={endpoint}) == []
    write_down(delivered, first, NOW, 200)
    [second] = claim()
    assert [first.event.data["id"], second.event.data["id"]] == jobs
    write_down(delivered, second, NOW, 204)
    assert claim(1e9) == []


def test_no_more_is_claimed_than_can_be_sent(ended, add_endpoint, claim):
    add_endpoint(), add_endpoint()
    ended()
    assert (len(claim(most=0)), len(claim(most=1)), len(claim())) == (0, 1, 1)


def test_what_was_not_delivered_is_due_after_its_wait(ended, add_endpoint, claim, write_down):
    add_endpoint()
    ended()
    [errand] = claim()
    write_down(not_delivered, errand, NOW, wait_s=300, status_code=500, problem=None)
    assert claim(299) == []
    assert claim(300)[0].event == errand.event


def test_a_try_that_was_taken_over_writes_nothing_down(ended, add_endpoint, claim, write_down):
    add_endpoint()
    ended()
    [late] = claim()
    [again] = claim(HELD_S)
    write_down(not_delivered, late, NOW, wait_s=None, status_code=None, problem="late")
    write_down(not_delivered, again, NOW, wait_s=1, status_code=None, problem="now")
    assert len(claim(1)) == 1


def test_a_disabled_endpoint_is_told_nothing_more(
    database, project, ended, add_endpoint, told, claim, write_down
):
    endpoint = add_endpoint()
    ended()
    write_down(disable_endpoint, endpoint, NOW, 410)
    ended()
    assert claim(1e9) == []
    assert len(told()) == 1
    with database.begin() as session:
        assert get_endpoint(session, project, endpoint).disabled_at == NOW


def test_what_was_to_be_sent_to_a_deleted_endpoint_is_gone(
    database, project, ended, add_endpoint, told, claim, write_down
):
    endpoint = add_endpoint()
    ended()
    [errand] = claim()
    with database.begin() as session:
        delete_endpoint(session, project, endpoint)
    write_down(delivered, errand, NOW, 200)
    assert told() == []


def test_a_job_ends_though_its_webhook_is_deleted_meanwhile(
    database, project, lease, add_endpoint, told
):
    endpoint = add_endpoint()
    with database.begin() as ending, database.begin() as deleting:
        succeed_job(ending, lease, trained_tokens=1)
        ending.flush()
        deleting.execute(text("set local lock_timeout = '50ms'"))
        with pytest.raises(OperationalError, match="lock timeout"):
            delete_endpoint(deleting, project, endpoint)
        deleting.rollback()
    assert len(told()) == 1


def test_what_is_done_is_forgotten_and_what_is_due_is_not(
    ended, add_endpoint, told, claim, write_down
):
    add_endpoint()
    ended(), ended()
    [errand] = claim()
    write_down(delivered, errand, NOW, 200)
    write_down(forget_old_deliveries, NOW)
    assert len(told()) == 2
    write_down(forget_old_deliveries, NOW + timedelta(seconds=1))
    assert len(told()) == 1

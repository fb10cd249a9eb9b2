"""Every event reaches its receiver at least once, whatever is slow, away or dies meanwhile."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from openai import InvalidWebhookSignatureError, OpenAI
from sqlalchemy import select

from core.spec.webhook import DEFAULT_TYPES
from core.store.database import Database
from core.store.tables import DeliveryRow
from core.store.webhooks import create_endpoint, get_endpoint, rotate_secret
from core.store.wishes import cancel_job
from core.webhooks.addresses import AllowList
from core.webhooks.schedule import MOST_TRIES, WAITS_S
from core.webhooks.send import Sender
from worker.courier import HELD_S, Courier

HOUR, DAY = 3600.0, 86_400.0
KEPT_S = 30 * DAY
CANCELLED = "fine_tuning.job.cancelled"


class Stage:
    """A courier on a clock of our own, which begins an hour ago."""

    def __init__(self, database, **options):
        self.now = datetime.now(UTC) - timedelta(hours=1)
        sender = Sender(AllowList.parse("127.0.0.1"), **{"limit_s": 5.0, **options})
        self.courier = Courier(
            database, sender, kept_s=KEPT_S, clock=lambda: self.now, chance=lambda: 0.0
        )

    def look(self, after_s=0.0):
        """What is due so many seconds later is sent, and written down."""
        self.now += timedelta(seconds=after_s)
        self.courier.look()
        self.courier.settle()


@pytest.fixture
def stage(database):
    stage = Stage(database)
    yield stage
    stage.courier.settle()
    stage.courier.close()


@pytest.fixture
def endpoint(database, project):
    """Makes an endpoint at a receiver; its id and secret."""

    def make(receiver):
        with database.begin() as session:
            row, secret = create_endpoint(
                session, project, name="n", url=receiver.url, event_types=DEFAULT_TYPES
            )
            return row.id, secret

    return make


@pytest.fixture
def end_job(database, project, add_job):
    def end():
        job_id = add_job()
        with database.begin() as session:
            cancel_job(session, project, job_id)
        return job_id

    return end


@pytest.fixture
def deliveries(database):
    def read():
        with database.begin() as session:
            return list(session.scalars(select(DeliveryRow).order_by(DeliveryRow.position)))

    return read


@pytest.fixture
def unwrap():
    with OpenAI(api_key="-") as client:
        yield lambda got, secret: client.webhooks.unwrap(got[1], got[0], secret=secret)


def ids(receiver):
    return [headers["webhook-id"] for headers, _ in receiver.received]


def test_the_end_of_a_job_is_told_once(stage, endpoint, receiver, end_job, deliveries):
    endpoint(receiver)
    end_job()
    stage.look()
    stage.look(DAY)
    [row] = deliveries()
    assert ids(receiver) == [row.event_id]
    assert (row.status, row.attempts, row.last_status_code) == ("delivered", 1, 200)


def test_a_receiver_that_is_down_for_an_hour_gets_it_later(
    stage, endpoint, receiver, end_job, unwrap
):
    _, secret = endpoint(receiver)
    job_id = end_job()
    receiver.answers += [(500, {})] * 3
    stage.look()
    for after_s in (WAITS_S[0], WAITS_S[1], HOUR - WAITS_S[0] - WAITS_S[1]):
        stage.look(after_s - 1)
        stage.look(1)
    assert len(set(ids(receiver))) == 1
    assert len({headers["webhook-timestamp"] for headers, _ in receiver.received}) == 4
    event = unwrap(receiver.received[-1], secret)
    assert (event.type, event.data.id) == (CANCELLED, job_id)
    stage.look(DAY)
    assert len(receiver.received) == 4


def test_a_receiver_that_is_never_up_is_given_up_and_told(
    stage, endpoint, receiver, end_job, deliveries, caplog
):
    endpoint(receiver)
    end_job()
    receiver.close()
    for wait_s in (0.0, *WAITS_S, DAY):
        stage.look(wait_s)
    [row] = deliveries()
    assert (row.status, row.attempts) == ("given_up", MOST_TRIES)
    assert row.last_problem.startswith("ConnectError")
    assert row.event_id in caplog.text


def test_old_deliveries_are_forgotten(stage, endpoint, receiver, end_job, deliveries):
    endpoint(receiver)
    end_job()
    stage.look()
    stage.look(KEPT_S)
    assert len(deliveries()) == 1
    stage.look(1)
    assert deliveries() == []


def test_a_receiver_that_is_gone_is_asked_no_more(
    stage, endpoint, receiver, end_job, deliveries, database, project
):
    endpoint_id, _ = endpoint(receiver)
    end_job(), end_job()
    receiver.answers.append((410, {}))
    stage.look()
    stage.look(DAY)
    assert len(receiver.received) == 1
    assert {row.status for row in deliveries()} == {"given_up"}
    with database.begin() as session:
        assert get_endpoint(session, project, endpoint_id).disabled_at is not None


def test_a_busy_receiver_says_when_it_wants_to_be_asked(stage, endpoint, receiver, end_job):
    endpoint(receiver)
    end_job()
    receiver.answers.append((429, {"retry-after": "100"}))
    stage.look()
    stage.look(99)
    assert len(receiver.received) == 1
    stage.look(1)
    assert len(receiver.received) == 2


def test_both_secrets_are_good_while_one_takes_over(
    stage, endpoint, receiver, end_job, unwrap, database, project
):
    endpoint_id, old = endpoint(receiver)
    with database.begin() as session:
        _, new = rotate_secret(session, project, endpoint_id, keep_old=True)
    end_job()
    stage.now += timedelta(hours=1)
    stage.look()
    assert unwrap(receiver.received[0], old) == unwrap(receiver.received[0], new)
    end_job()
    stage.look(DAY + HOUR)
    headers, body = receiver.received[1]
    assert " " not in headers["webhook-signature"]
    with pytest.raises(InvalidWebhookSignatureError):
        unwrap((headers, body), old)


def test_a_slow_receiver_holds_up_nobody_else(
    stage, endpoint, new_receiver, end_job, until, deliveries
):
    slow, quick = new_receiver(), new_receiver()
    endpoint(slow), endpoint(quick)
    slow.may_answer.clear()
    end_job(), end_job()
    stage.courier.look()
    until(lambda: len(slow.received) == len(quick.received) == 1)
    until(lambda: sum(row.status == "delivered" for row in deliveries()) == 1)
    until(lambda: stage.courier.look() or len(quick.received) == 2)
    assert len(slow.received) == 1
    slow.may_answer.set()
    stage.courier.settle()
    stage.look()
    assert sorted(ids(slow)) == sorted(ids(quick))


def test_what_was_sent_by_one_who_died_is_sent_again_under_the_same_id(
    stage, endpoint, receiver, end_job, outage, deliveries
):
    endpoint(receiver)
    end_job()
    receiver.may_answer.clear()
    stage.courier.look()
    with outage():  # it is sent, and cannot be written down
        receiver.may_answer.set()
        stage.courier.settle()
        stage.look()
    stage.look(HELD_S - 1)
    assert len(receiver.received) == 1
    stage.look(1)
    [row] = deliveries()
    assert ids(receiver) == [row.event_id] * 2
    assert (row.status, row.attempts) == ("delivered", 2)


def test_of_two_couriers_one_delivers_and_the_other_takes_over(
    stage, database_url, endpoint, receiver, end_job
):
    other = Stage(database := Database(database_url, pool_size=2))
    endpoint(receiver)
    end_job()
    stage.look()
    end_job()
    other.look()
    assert len(receiver.received) == 1
    stage.courier.close()
    other.look()
    assert len(receiver.received) == 2
    other.courier.close()
    database.close()


def test_a_courier_that_fails_ends_its_process(database):
    def broken():
        raise ZeroDivisionError

    end = threading.Event()
    courier = Courier(database, Sender(), kept_s=KEPT_S, clock=broken)
    with pytest.raises(ZeroDivisionError):
        courier.run(end, look_s=0.001)
    assert end.is_set()

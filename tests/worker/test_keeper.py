"""A lease is held through an outage, and let go only when it is somebody else's."""

from threading import Thread

import pytest

from core.store.attempts import stop_attempt
from core.store.errors import LeaseLost
from core.store.wishes import cancel_job
from worker.keeper import LeaseKeeper
from worker.pen import Pen

LEASE_S = 0.4
"""Renewed every tenth of a second."""


@pytest.fixture
def lease(add_job, claim):
    return claim(add_job(), LEASE_S)


@pytest.fixture
def keeper(context, lease):
    with LeaseKeeper(context.database, lease, LEASE_S) as keeper:
        yield keeper


def test_a_lease_is_renewed_before_it_ends(lease, keeper, records, until):
    first = records.job(lease.job_id).lease_expires_at
    until(lambda: (records.job(lease.job_id).lease_expires_at - first).total_seconds() > LEASE_S)
    keeper.check()


def test_the_wish_to_cancel_is_brought(context, project, lease, keeper, until):
    assert keeper.wish is None
    with context.database.begin() as session:
        cancel_job(session, project, lease.job_id)
    until(lambda: keeper.wish == "cancel")


def test_a_lease_that_was_taken_away_is_told(context, lease, keeper, until):
    with context.database.begin() as session:
        stop_attempt(session, lease, "for the test")
    until(lambda: keeper.lost)
    with pytest.raises(LeaseLost, match=lease.job_id):
        keeper.check()
    with pytest.raises(LeaseLost):
        keeper.pause(0)


def test_an_outage_is_no_loss(lease, keeper, outage, until, caplog, records):
    with outage():
        until(lambda: "lease not renewed" in caplog.text)
        assert not keeper.lost
    before = records.job(lease.job_id).lease_expires_at
    until(lambda: records.job(lease.job_id).lease_expires_at > before)


def test_a_write_waits_for_the_database_and_is_done_once(
    context, lease, keeper, outage, records, until, caplog
):
    pen = Pen(context.database, keeper)
    writing = Thread(target=pen.write, args=(lambda session: stop_attempt(session, lease, "r"),))
    with outage():
        writing.start()
        until(lambda: "not written, trying again" in caplog.text)
    writing.join()
    assert records.codes(lease.job_id).count("job.handed_back") == 1


def test_a_write_of_somebody_who_lost_the_job_ends_with_the_loss(context, lease, keeper):
    pen = Pen(context.database, keeper)
    pen.write(lambda session: stop_attempt(session, lease, "r"))
    with pytest.raises(LeaseLost):
        pen.write(lambda session: stop_attempt(session, lease, "r"))

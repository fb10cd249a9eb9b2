"""A worker is in the list from its start to its end, and takes only jobs that fit."""

from dataclasses import replace

import pytest

from core.store.tables import JobRow
from core.store.workers import live_workers, remove_worker
from worker.device import Device
from worker.presence import Presence
from worker.supervise import supervise_next

GIB = 2**30


@pytest.fixture
def listed(database):
    def names():
        with database.begin() as session:
            return {row.name: row for row in live_workers(session)}

    return names


@pytest.fixture
def presence(context):
    device = Device("H200", 139 * GIB)
    return Presence(context.database, "host:1", version="0.1", devices=[device], every_s=0.05)


def test_a_worker_is_listed_until_it_ends(presence, listed, until, database):
    with presence:
        assert listed() == {}
        presence.start()
        until(lambda: "host:1" in listed())
        row = listed()["host:1"]
        assert (row.version, row.device, row.device_bytes) == ("0.1", "H200", 139 * GIB)
        with database.begin() as session:
            remove_worker(session, "host:1")
        until(lambda: "host:1" in listed())
    assert listed() == {}


def test_each_slot_of_a_worker_is_listed_with_its_device(context, listed, until):
    devices = [Device("H200", 139 * GIB, "0"), Device("A100", 79 * GIB, "1")]
    with Presence(context.database, "host:1", version="0.1", devices=devices) as presence:
        presence.start()
        until(listed)
        found = {name: (row.device, row.device_bytes) for name, row in listed().items()}
    assert found == {"host:1/0": ("H200", 139 * GIB), "host:1/1": ("A100", 79 * GIB)}
    assert listed() == {}


def test_an_outage_does_not_silence_a_worker(presence, listed, until, outage, caplog):
    with presence:
        presence.start()
        until(lambda: "host:1" in listed())
        with outage():
            until(lambda: "the database is away" in caplog.text)
        seen = listed()["host:1"].seen_at
        until(lambda: listed()["host:1"].seen_at > seen)


def test_a_worker_passes_over_a_job_that_does_not_fit(context, add_job, records):
    job_id = add_job()
    with context.database.begin() as session:
        session.get_one(JobRow, job_id).predicted_bytes = 4 * GIB
    settings = context.settings.model_copy(update={"device_bytes": 3 * GIB})
    assert not supervise_next(replace(context, settings=settings))
    assert (records.job(job_id).status, records.job(job_id).attempts) == ("queued", 0)

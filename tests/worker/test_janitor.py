"""The sweep rings for what nobody heard, and takes back only what is surely lost."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kombu.exceptions import OperationalError
from sqlalchemy import select, text, update

from core.spec.bell import PREPARE_TASK, TRAIN_TASK
from core.store.audit import Write, add_write
from core.store.files import set_prepared
from core.store.tables import AuditRow, BlobRow
from core.store.workers import report_worker
from worker.janitor import Janitor
from worker.supervise import supervise_next

LEASE_S, RING_AGAIN_S = 5, 30
OVER = -1.0


class Stage:
    """A janitor on a clock of our own, and the rings that it gave."""

    def __init__(self, context):
        self.now = 1000.0
        self.rings = []
        self.broker_is_away = False
        self._janitor = Janitor(context, self._ring, clock=lambda: self.now)

    def sweep(self, after=0.0):
        """The rings of one sweep, ``after`` seconds later."""
        self.now += after
        self.rings.clear()
        self._janitor.sweep()
        return list(self.rings)

    def _ring(self, task, id):
        if self.broker_is_away:
            raise OperationalError("away")
        self.rings.append((task, id))


@pytest.fixture
def stage(context):
    stage = Stage(context)
    yield stage
    stage._janitor.close()


def test_what_waits_is_rung_for_and_again_only_after_a_while(stage, add_job, training_file):
    job_id, file_id = add_job(), training_file(prepared=False)
    both = [(TRAIN_TASK, job_id), (PREPARE_TASK, file_id)]
    assert stage.sweep() == both
    assert stage.sweep(RING_AGAIN_S - 1) == []
    assert stage.sweep(1) == both


def test_an_idle_worker_is_rung_for_once_however_many_jobs_wait(stage, database, add_job, claim):
    with database.begin() as session:
        for name in ("busy", "one", "another"):
            report_worker(session, name, version="1", device="cpu", device_bytes=None)
    claim(add_job())
    waiting = [(TRAIN_TASK, add_job()) for _ in range(5)]
    assert stage.sweep() == waiting[:2]
    assert stage.sweep(1) == waiting[2:4]  # whoever did not hear the first ones
    assert stage.sweep(1) == waiting[4:]
    assert stage.sweep(1) == []


def test_where_no_worker_says_that_it_is_there_one_at_a_time_is_rung_for(stage, add_job):
    waiting = [(TRAIN_TASK, add_job()) for _ in range(2)]
    assert stage.sweep() == waiting[:1]
    assert stage.sweep(1) == waiting[1:]


def test_a_job_that_somebody_has_is_not_rung_for(stage, add_job, claim):
    claim(add_job())
    assert stage.sweep() == []


def test_a_job_that_a_quota_holds_back_is_neither_rung_for_nor_taken(context, add_job, records):
    job_id = add_job()
    settings = context.settings.model_copy(update={"quota_running_jobs": 0})
    held = replace(context, settings=settings)
    stage = Stage(held)
    assert stage.sweep() == []
    stage._janitor.close()
    assert supervise_next(held) is False
    assert records.job(job_id).status == "queued"


def test_a_ring_that_the_broker_did_not_take_is_given_at_the_next_sweep(stage, add_job):
    job_id = add_job()
    stage.broker_is_away = True
    assert stage.sweep() == []
    stage.broker_is_away = False
    assert stage.sweep(1) == [(TRAIN_TASK, job_id)]


def test_a_lease_expires_only_after_the_database_was_up_for_a_whole_one(
    stage, add_job, claim, records
):
    lease = claim(add_job(), OVER)
    assert stage.sweep() == []
    assert stage.sweep(LEASE_S - 1) == []
    assert records.job(lease.job_id).status == "running"
    assert stage.sweep(1) == [(TRAIN_TASK, lease.job_id)]
    assert records.job(lease.job_id).status == "queued"
    assert records.codes(lease.job_id)[-1] == "worker.lost"


def test_after_an_outage_the_wait_begins_anew(stage, add_job, claim, records, outage):
    lease = claim(add_job(), OVER)
    stage.sweep()
    with outage():
        assert stage.sweep(LEASE_S - 1) == []
    stage.sweep(1)
    stage.sweep(LEASE_S - 1)
    assert records.job(lease.job_id).status == "running"
    stage.sweep(1)
    assert records.job(lease.job_id).status == "queued"


def test_a_lease_that_is_renewed_is_left_alone(stage, add_job, claim, records):
    lease = claim(add_job(), 60.0)
    stage.sweep()
    stage.sweep(LEASE_S)
    assert records.job(lease.job_id).lease_token == lease.token


def test_a_job_that_loses_every_worker_fails(stage, context, add_job, claim, records):
    job_id = add_job()
    stage.sweep()
    for _ in range(context.settings.max_attempts):
        claim(job_id, OVER)
        stage.sweep(LEASE_S)
    error = records.job(job_id).error
    assert (records.job(job_id).status, error["code"]) == ("failed", "worker_lost")
    assert stage.sweep(RING_AGAIN_S) == []


def test_a_job_whose_files_were_prepared_unheard_is_moved_on(
    stage, database, add_job, training_file, records
):
    file_id = training_file(prepared=False)
    job_id = add_job(training_file=file_id)
    with database.begin() as session:
        set_prepared(session, file_id, ok=True, details=None, report={})
    assert stage.sweep() == [(TRAIN_TASK, job_id)]
    assert records.job(job_id).status == "queued"


def test_a_blob_of_no_file_is_deleted_when_it_is_old(
    stage, context, database, training_file, records
):
    training_file()
    old, young = context.blobs.write([b"old"]), context.blobs.write([b"young"])
    with database.begin() as session:
        age = timedelta(seconds=context.settings.orphan_blob_s + 1)
        aged = update(BlobRow).where(BlobRow.id == old.id)
        session.execute(aged.values(created_at=BlobRow.created_at - age))
    stage.sweep()
    assert records.blob_count() == 3
    stage.sweep(LEASE_S)
    assert records.blob_count() == 2
    assert b"".join(context.blobs.read(young.id)) == b"young"


def test_the_log_of_writes_goes_back_as_far_as_is_asked_for(stage, context, database):
    def add(request_id: str, age_days: float) -> None:
        write = Write(None, None, None, request_id, None, "POST", "/v1/files", None, 401)
        with database.begin() as session:
            add_write(session, write)
            aged = text(
                "update audit set at = at - make_interval(secs => :s) where request_id = :i"
            )
            session.execute(aged, {"s": age_days * 86_400, "i": request_id})

    add("old", context.settings.audit_days + 0.1)
    add("kept", context.settings.audit_days - 0.1)
    stage.sweep()
    with database.begin() as session:
        assert session.scalars(select(AuditRow.request_id)).all() == ["kept"]

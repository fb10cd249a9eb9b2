"""Quotas: a project's own word before the service's, counted from the rows, and not to be outrun."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from core.data.file_check import unfit_file
from core.store.errors import StoreError
from core.store.jobs import get_job
from core.store.leases import claim_job
from core.store.projects import create_organization, find_organization
from core.store.queue import claim_next, queued_jobs, waiting
from core.store.quotas import (
    UNLIMITED,
    QuotaExceeded,
    Quotas,
    admit_bytes,
    admit_job,
    held_back,
    quotas_of,
    reset_quota,
    set_quota,
)
from core.store.uploads import add_part, create_upload
from core.store.usage import used
from core.store.wishes import pause_job, resume_job

AT_ONCE = 8


@pytest.fixture
def limit(database, project):
    def to(quota: str, most: int | None) -> None:
        with database.begin() as session:
            set_quota(session, project, quota, most)

    return to


@pytest.fixture
def use(database, project):
    def of(quota: str) -> int:
        with database.begin() as session:
            return used(session, quota, [project])[project]

    return of


@pytest.fixture
def claim(database):
    def do(quotas=UNLIMITED):
        with database.begin() as session:
            lease = claim_next(session, worker="w", lease_s=60.0, quotas=quotas)
        return lease and lease.job_id

    return do


def test_a_project_has_its_own_word_before_the_services(database, project, other_project, limit):
    service = Quotas(running_jobs=3, queued_jobs=5)
    limit("running_jobs", 1)
    limit("queued_jobs", None)
    with database.begin() as session:
        found = quotas_of(session, [project, other_project], service)
    assert found == {project: Quotas(running_jobs=1), other_project: service}
    with database.begin() as session:
        reset_quota(session, project, "running_jobs")
        assert quotas_of(session, [project], service)[project].running_jobs == 3


def test_what_waits_is_counted_and_what_runs_is_not(new_job, use, claim):
    for _ in range(3):
        new_job()
    claim()
    assert (use("queued_jobs"), use("running_jobs")) == (2, 1)


def test_one_job_too_many_is_refused_and_told_in_numbers(new_job, limit):
    limit("queued_jobs", 2)
    new_job(), new_job()
    with pytest.raises(QuotaExceeded, match="queued_jobs is 2: 2 are used") as refused:
        new_job()
    assert (refused.value.limit, refused.value.used, refused.value.asked) == (2, 2, 1)
    assert refused.value.retry_after_s is None


def test_a_paused_job_is_no_way_around(database, project, new_job, limit):
    first = new_job()
    with database.begin() as session:
        pause_job(session, project, first)
    limit("queued_jobs", 1)
    new_job()
    with pytest.raises(QuotaExceeded), database.begin() as session:
        resume_job(session, project, first, unfit_file)
    with database.begin() as session:
        assert get_job(session, project, first).status == "paused"


def test_files_and_parts_of_uploads_are_stored_bytes(
    database, blobs, project, training_file, limit, use
):
    training_file(b"x" * 60)
    with database.begin() as session:
        asked = {"filename": "f", "purpose": "evals", "bytes": 40, "lifetime_s": 60.0}
        upload = create_upload(session, project, **asked).id
        add_part(session, project, upload, blobs.write([b"y" * 30]))
    assert use("stored_bytes") == 90
    limit("stored_bytes", 100)
    with database.begin() as session:
        admit_bytes(session, project, 10, Quotas())
        with pytest.raises(QuotaExceeded, match="would add 11"):
            admit_bytes(session, project, 11, Quotas())
        with pytest.raises(QuotaExceeded):
            add_part(session, project, upload, blobs.write([b"y" * 11]))
        with pytest.raises(QuotaExceeded):
            create_upload(session, project, **asked)


def test_a_project_whose_store_is_full_gets_no_new_job(new_job, training_file, limit):
    file_id = training_file(b"x" * 50)
    limit("stored_bytes", 50)
    with pytest.raises(QuotaExceeded, match=r"stored_bytes is 50: 50 are used$"):
        new_job(file_id)


def test_device_seconds_are_those_of_today_times_devices(database, project, new_job, limit, use):
    with database.begin() as session:
        lease = claim_job(session, new_job(), worker="w", lease_s=60.0)
        day = "date_trunc('day', now(), 'UTC')"
        session.execute(
            text(
                f"update attempts set devices = 2, started_at = {day} - interval '1 hour', "
                f"ended_at = {day} + make_interval(secs => 0.25)"
            )
        )
    assert lease is not None
    assert use("device_seconds") == 1  # 2 x 0.25 s, rounded up
    limit("device_seconds", 1)
    with pytest.raises(QuotaExceeded) as refused, database.begin() as session:
        admit_job(session, project, Quotas())
    assert 0 < refused.value.retry_after_s <= 86_400


def test_the_quota_of_running_jobs_lets_a_job_wait_and_say_why(
    database, project, new_job, limit, claim
):
    limit("running_jobs", 1)
    first, second = new_job(), new_job()
    assert [claim(), claim()] == [first, None]
    with database.begin() as session:
        place = waiting(session, [get_job(session, project, second)])[second]
        assert queued_jobs(session) == []
    assert (place.reason, place.until) == ("project_quota", None)
    assert "running_jobs is 1, and 1 are used" in place.message


def test_a_project_that_may_run_no_more_keeps_nobody_else_waiting(new_job, other_project, claim):
    mine = [new_job(), new_job()]
    theirs = new_job(owner=other_project)
    one_each = Quotas(running_jobs=1)
    assert [claim(one_each) for _ in range(3)] == [mine[0], theirs, None]


def test_a_day_that_is_used_up_lets_jobs_wait_until_midnight(database, project, new_job, limit):
    job_id = new_job()
    limit("device_seconds", 0)
    with database.begin() as session:
        place = waiting(session, [get_job(session, project, job_id)])[job_id]
    until = place.until.astimezone(UTC)
    assert (place.reason, until.hour, until.minute) == ("project_quota", 0, 0)
    assert until > datetime.now(UTC)


def test_no_number_of_requests_at_once_gets_past_a_quota(new_job, training_file, limit):
    file_id = training_file()
    limit("queued_jobs", 3)

    def ask(_: int) -> bool:
        try:
            new_job(file_id)
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert sum(pool.map(ask, range(2 * AT_ONCE))) == 3


def test_no_number_of_workers_at_once_gets_past_a_quota(new_job, training_file, limit, claim):
    file_id = training_file()
    for _ in range(2 * AT_ONCE):
        new_job(file_id)
    limit("running_jobs", 3)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        claimed = list(pool.map(lambda _: claim(), range(2 * AT_ONCE)))
    assert sum(job is not None for job in claimed) == 3


def test_without_quotas_nothing_is_held_back(database, project, new_job):
    new_job()
    with database.begin() as session:
        assert held_back(session, [project], Quotas()) == {}


def test_an_organisation_is_made_once(database):
    with database.begin() as session:
        made = create_organization(session, "acme")
        assert find_organization(session, "acme").id == made.id
        with pytest.raises(StoreError, match="'acme' already"):
            create_organization(session, "acme")

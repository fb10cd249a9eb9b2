"""What the database itself does not allow, whatever the code above it does."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

STATUSES = ["validating_files", "queued", "succeeded", "failed", "cancelled"]


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_allowed(database, new_job, read_job, status):
    job_id = new_job()
    with database.begin() as session:
        session.execute(text("update jobs set status = :status"), {"status": status})
    assert read_job(job_id).status == status


@pytest.mark.parametrize(
    "change",
    [
        "update jobs set status = 'pausing'",
        "update jobs set status = ''",
        "update jobs set status = null",
        "update jobs set status = 'running'",
        "update jobs set lease_token = 'x'",
        "update jobs set project_id = 'nobody'",
        "update files set status = 'deleted'",
        "update files set blob_id = 'nowhere'",
        "update events set level = 'debug'",
        "delete from blobs",
        "insert into events select * from events",
    ],
)
def test_a_row_that_makes_no_sense_is_refused(database, new_job, change):
    new_job()
    with pytest.raises(IntegrityError), database.begin() as session:
        session.execute(text(change))


@pytest.mark.usefixtures("lease")
def test_a_running_job_cannot_lose_its_lease_without_its_status(database):
    with pytest.raises(IntegrityError), database.begin() as session:
        session.execute(text("update jobs set lease_token = null"))


def test_a_model_has_one_name(database, new_job):
    new_job()
    new_job()
    with pytest.raises(IntegrityError), database.begin() as session:
        session.execute(text("update jobs set fine_tuned_model = 'ft:m'"))


@pytest.mark.usefixtures("lease")
def test_everything_of_a_job_goes_with_it(database):
    with database.begin() as session:
        session.execute(text("delete from jobs"))
        for table in ("events", "attempts", "metrics", "checkpoints"):
            assert session.scalar(text(f"select count(*) from {table}")) == 0

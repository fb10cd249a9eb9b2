"""No text can make a statement fail: what Postgres cannot hold is replaced, or not found."""

import pytest

from core.spec.errors import JobError
from core.store.attempts import Retries, fail_attempt
from core.store.errors import NotFound
from core.store.events import add_event, list_events
from core.store.files import get_file, set_prepared
from core.store.jobs import get_job, list_jobs
from core.store.tables.text import storable

BAD = "a\x00b\ud800c"
GOOD = "a\ufffdb\ufffdc"


def test_only_what_cannot_be_stored_is_replaced():
    kept = {"a": [1, 2.5, None, True, "ü😀\\u0000"], "b": {"c": "\n\t"}}
    assert storable(kept) == kept
    assert storable({BAD: [BAD, {"x": BAD}]}) == {GOOD: [GOOD, {"x": GOOD}]}


def test_an_event_may_say_anything(database, project, new_job):
    job_id = new_job()
    with database.begin() as session:
        job = get_job(session, project, job_id)
        add_event(session, job, BAD, code="c", data={"text": BAD})
    with database.begin() as session:
        last = list_events(session, job, after=None, limit=1).rows[0]
    assert (last.message, last.data["text"]) == (GOOD, GOOD)


def test_a_report_may_quote_anything(database, project, training_file):
    file_id = training_file(prepared=False)
    with database.begin() as session:
        set_prepared(session, file_id, ok=False, details=BAD, report={"problems": [{"m": BAD}]})
        file = get_file(session, project, file_id)
    assert (file.status, file.status_details) == ("error", GOOD)
    assert file.report == {"problems": [{"m": GOOD}]}


def test_a_job_may_fail_with_anything(database, lease, read_job):
    with database.begin() as session:
        fail_attempt(session, lease, JobError(code="c", message="a\x00b"), Retries())
    assert read_job(lease.job_id).error["message"] == "a\ufffdb"


@pytest.mark.parametrize("id", [BAD, "\x00"])
def test_an_id_that_cannot_be_stored_is_not_found(database, project, id):
    for get in (get_file, get_job):
        with pytest.raises(NotFound), database.begin() as session:
            get(session, project, id)
    with database.begin() as session:
        page = list_jobs(session, project, tags={id: id}, after=None, limit=1)
    assert page.rows == []

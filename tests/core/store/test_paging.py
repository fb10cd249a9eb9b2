"""Pages hold every item once, while others are added, and say nothing of foreign ids."""

import pytest

from core.store.errors import NotFound
from core.store.events import list_events
from core.store.files import list_files
from core.store.jobs import get_job, list_jobs


@pytest.fixture
def page_jobs(database, project):
    def read(after=None, limit=2, tags=None):
        with database.begin() as session:
            page = list_jobs(session, project, tags=tags, after=after, limit=limit)
        return [job.id for job in page.rows], page.has_more

    return read


@pytest.fixture
def page_files(database, project):
    def read(after=None, limit=2, order="desc", purpose=None):
        with database.begin() as session:
            page = list_files(
                session, project, purpose=purpose, after=after, limit=limit, order=order
            )
        return [file.id for file in page.rows], page.has_more

    return read


def test_pages_are_stable_while_jobs_are_added(new_job, page_jobs):
    made = [new_job() for _ in range(5)]
    seen, more = page_jobs()
    while more:
        new_job()
        ids, more = page_jobs(after=seen[-1])
        seen += ids
    assert seen == made[::-1]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_there_is_more_only_if_there_is(new_job, page_jobs, count):
    for _ in range(count):
        new_job()
    ids, more = page_jobs(limit=2)
    assert (len(ids), more) == (min(count, 2), count > 2)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_files_come_in_either_order(training_file, page_files, order):
    made = [training_file() for _ in range(3)]
    if order == "desc":
        made.reverse()
    first, more = page_files(order=order)
    second, end = page_files(order=order, after=first[-1])
    assert (first + second, more, end) == (made, True, False)


def test_an_id_that_is_no_item_of_the_list_is_refused(
    other_project, training_file, new_job, page_jobs, page_files
):
    foreign = new_job(owner=other_project)
    for id in (foreign, "ftjob-none", training_file()):
        with pytest.raises(NotFound, match="list after"):
            page_jobs(after=id)
    with pytest.raises(NotFound):
        page_files(after=foreign)


def test_an_item_that_the_filter_hides_cannot_be_listed_after(new_job, page_jobs):
    hidden = new_job(tags={"team": "a"})
    with pytest.raises(NotFound):
        page_jobs(after=hidden, tags={"team": "b"})


def test_an_event_of_another_job_is_refused(database, project, new_job):
    first, second = new_job(), new_job()
    with database.begin() as session:
        event = list_events(session, get_job(session, project, first), after=None, limit=1).rows[0]
        job = get_job(session, project, second)
    with pytest.raises(NotFound), database.begin() as session:
        list_events(session, job, after=event.id, limit=1)


def test_tags_must_all_match_and_no_tags_means_none(new_job, page_jobs):
    plain = new_job()
    one = new_job(tags={"team": "a"})
    two = new_job(tags={"team": "a", "run": "1"})
    assert page_jobs(tags={"team": "a"})[0] == [two, one]
    assert page_jobs(tags={"team": "a", "run": "1"})[0] == [two]
    assert page_jobs(tags={"team": ""})[0] == []
    assert page_jobs(tags={})[0] == [plain]
    assert page_jobs(limit=9)[0] == [two, one, plain]


def test_a_purpose_filters_files(training_file, page_files):
    file_id = training_file()
    assert page_files(purpose="fine-tune")[0] == [file_id]
    assert page_files(purpose="checkpoint")[0] == []

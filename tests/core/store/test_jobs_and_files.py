"""A job waits for its files: it is queued when all are good, and fails when one is not."""

import pytest

from core.data.file_check import unfit_file
from core.store.files import remove_file, set_prepared
from core.store.jobs import jobs_waiting_for_files, settle_files


@pytest.fixture
def prepare(database):
    """What a worker does with a file: the verdict, then the jobs that wait for it."""

    def do(file_id: str, *, ok: bool = True, shape: str = "chat") -> None:
        with database.begin() as session:
            details = None if ok else "line 3: not JSON"
            set_prepared(session, file_id, ok=ok, details=details, report={"shape": shape})
            for job in jobs_waiting_for_files(session, file_id):
                settle_files(session, job, unfit_file)

    return do


@pytest.fixture
def delete(database, project):
    def do(file_id: str) -> None:
        with database.begin() as session:
            remove_file(session, project, file_id)
            for job in jobs_waiting_for_files(session, file_id):
                settle_files(session, job, unfit_file)

    return do


def test_a_job_with_a_checked_file_is_queued_at_once(new_job, read_job):
    job = read_job(new_job())
    assert (job.status, job.phase) == ("queued", "waiting_for_worker")


def test_a_job_waits_for_its_file_and_is_queued_when_it_is_good(
    new_job, read_job, training_file, prepare
):
    file_id = training_file(prepared=False)
    job_id = new_job(file_id)
    assert read_job(job_id).status == "validating_files"
    prepare(file_id)
    assert read_job(job_id).status == "queued"


def test_a_job_fails_with_its_file_and_says_why(new_job, read_job, training_file, prepare):
    file_id = training_file(prepared=False)
    job_id = new_job(file_id)
    prepare(file_id, ok=False)
    job = read_job(job_id)
    assert (job.status, job.finished_at is not None) == ("failed", True)
    assert (job.error["code"], job.error["param"]) == ("invalid_training_file", "training_file")
    assert "line 3: not JSON" in job.error["message"]
    assert job.error["fault"] == "user"


def test_both_files_must_be_good(new_job, read_job, training_file, prepare):
    train, valid = training_file(prepared=False), training_file(prepared=False)
    job_id = new_job(train, validation_file=valid)
    prepare(valid)
    assert read_job(job_id).status == "validating_files"
    prepare(train)
    assert read_job(job_id).status == "queued"


def test_a_bad_validation_file_fails_the_job_by_its_own_name(
    new_job, read_job, training_file, prepare
):
    valid = training_file(prepared=False)
    job_id = new_job(training_file(), validation_file=valid)
    prepare(valid, ok=False)
    assert read_job(job_id).error["param"] == "validation_file"


def test_a_file_deleted_while_a_job_waits_fails_the_job(new_job, read_job, training_file, delete):
    file_id = training_file(prepared=False)
    job_id = new_job(file_id)
    delete(file_id)
    job = read_job(job_id)
    assert job.status == "failed"
    assert file_id in job.error["message"]
    assert "upload the file again" in job.error["hint"]


@pytest.mark.parametrize("param", ["training_file", "validation_file"])
def test_a_file_from_which_the_objective_cannot_learn_fails_the_job(
    new_job, read_job, training_file, prepare, param
):
    waiting = training_file(prepared=False)
    files = (waiting,) if param == "training_file" else (None,)
    job_id = new_job(*files, **({} if param == "training_file" else {param: waiting}))
    prepare(waiting, shape="preference")
    job = read_job(job_id)
    assert (job.status, job.error["code"]) == ("failed", f"invalid_{param}")
    assert (job.error["param"], job.error["fault"]) == (param, "user")
    assert "'preference'" in job.error["message"]
    assert "'dpo'" in job.error["hint"]


def test_a_file_that_turned_out_unfit_between_two_looks_fails_the_job_at_once(
    new_job, read_job, training_file, prepare
):
    file_id = training_file(prepared=False)
    prepare(file_id, shape="text")
    assert read_job(new_job(file_id)).status == "failed"


def test_a_job_of_another_file_is_left_alone(new_job, read_job, training_file, prepare):
    waiting = new_job(training_file(prepared=False))
    prepare(training_file(prepared=False))
    assert read_job(waiting).status == "validating_files"


def test_only_the_first_verdict_counts(new_job, read_job, training_file, prepare):
    file_id = training_file(prepared=False)
    prepare(file_id)
    prepare(file_id, ok=False)
    assert read_job(new_job(file_id)).status == "queued"


def test_the_sweep_finds_every_job_that_waits(database, new_job, training_file):
    waiting = [new_job(training_file(prepared=False)) for _ in range(3)]
    new_job()
    with database.begin() as session:
        assert [job.id for job in jobs_waiting_for_files(session)] == waiting

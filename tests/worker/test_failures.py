"""However an attempt fails, the row says so, and names the end of the trainer's log."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from core.store.errors import ArtifactsDown
from core.store.files import LOG_PURPOSE, get_file
from worker.layout import remove_run, run_directory
from worker.supervise import supervise_next

LONG = {"n_epochs": 50, "batch_size": 1}


@pytest.fixture
def content(context, project):
    def read(file_id):
        with context.database.begin() as session:
            file = get_file(session, project, file_id)
        assert (file.purpose, file.status) == (LOG_PURPOSE, "processed")
        return b"".join(context.blobs.read(file.blob_id)).decode()

    return read


def test_the_log_of_a_job_that_failed_can_be_read(
    context, settings, add_job, training_file, chat_lines, records, content
):
    lines = chat_lines(2) + chat_lines(1).replace(b"ab", b"ab" * 40)
    job_id = add_job(training_file=training_file(lines))
    supervise_next(context)
    error = records.job(job_id).error
    assert error["code"] == "example_too_long"
    assert "castalia: example_too_long" in content(error["log_file_id"])
    assert not (settings.runs_dir / job_id).exists()


def test_the_log_of_an_attempt_that_is_tried_again_is_told_in_its_event(
    settings, add_job, records, until, in_thread, trainers, content
):
    job_id = add_job(**LONG)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    (log,) = (settings.runs_dir / job_id).glob("*/trainer.log")
    with log.open("a") as file:
        file.write(f"url {settings.database_url}\n")
    (pid,) = trainers()
    os.kill(pid, signal.SIGSEGV)
    running.result()
    told = records.events(job_id)[-1].data
    assert (told["code"], told["reason"]) == ("job.retried", "trainer_crashed")
    assert content(told["log_file_id"]).endswith("url " + _without_password(settings) + "\n")


def _without_password(settings):
    before, _, after = settings.database_url.partition("://")
    return f"{before}://[redacted]@{after.rpartition('@')[2]}"


def test_a_job_that_failed_before_its_trainer_began_has_no_log(context, add_job, records):
    job_id = add_job(model="elsewhere")
    supervise_next(context)
    assert records.job(job_id).error["log_file_id"] is None


def test_a_trainer_has_no_key_to_the_database(
    context, add_job, records, until, in_thread, trainers
):
    os.environ["CASTALIA_DATABASE_URL"] = context.settings.database_url
    job_id = add_job(**LONG)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    (pid,) = trainers()
    environment = Path(f"/proc/{pid}/environ").read_bytes()
    del os.environ["CASTALIA_DATABASE_URL"]
    os.kill(pid, signal.SIGKILL)
    running.result()
    assert b"OMP_NUM_THREADS" in environment
    assert b"CASTALIA_DATABASE_URL" not in environment


class Odd(Exception):
    """Nobody expects it."""


class Failing:
    """Blobs that cannot be read."""

    def __init__(self, blobs, error):
        self._blobs = blobs
        self._error = error

    def read(self, _):
        raise self._error

    def write(self, chunks):
        return self._blobs.write(chunks)


def test_what_nobody_expected_is_the_platform_s_fault_and_is_told(
    context, add_job, records, caplog
):
    job_id = add_job()
    with pytest.raises(Odd):
        supervise_next(replace(context, blobs=Failing(context.blobs, Odd("dear me"))))
    job = records.job(job_id)
    assert (job.status, job.failures) == ("queued", 1)
    assert records.events(job_id)[-1].message.startswith("the worker failed: Odd: dear me; ")
    assert "Traceback" in caplog.text


def test_artifacts_that_cannot_be_fetched_are_waited_for_and_then_the_job_is_tried_again(
    context, settings, add_job, records, caplog
):
    away = Failing(context.blobs, ArtifactsDown("cannot read s3://a"))
    impatient = settings.model_copy(update={"upload_limit_s": 0.5})
    job_id = add_job()
    supervise_next(replace(context, blobs=away, settings=impatient))
    assert "file not fetched, trying again" in caplog.text
    assert (records.job(job_id).status, records.job(job_id).failures) == ("queued", 1)
    assert records.events(job_id)[-1].data["reason"] == "store_unavailable"


def test_a_worker_without_a_database_takes_nothing(context, add_job, outage):
    add_job()
    with outage():
        assert supervise_next(context) is False


def test_only_the_own_attempt_is_cleared_away(context, add_job, claim):
    lease = claim(add_job())
    own = run_directory(context, lease)
    other = own.with_name("attempt-2")
    for folder in (own, other):
        folder.mkdir(parents=True)
    remove_run(own)
    assert (own.exists(), other.exists()) == (False, True)
    remove_run(other)
    assert not other.parent.exists()

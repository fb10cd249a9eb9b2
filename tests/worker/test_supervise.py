"""One attempt at a job, with a real trainer: how it ends, and that its trainer ends with it."""

import hashlib
import os
import signal
from datetime import timedelta
from threading import Thread

import pytest
from sqlalchemy import func

from core.store.attempts import Retries, expire_leases
from core.store.files import remove_file
from core.store.leases import claim_job
from core.store.tables import AttemptRow, JobRow
from core.store.wishes import cancel_job
from worker.supervise import supervise_next

LONG = {"n_epochs": 50, "batch_size": 1}
"""350 steps: never done before the test has done its part."""
SHORT = {"n_epochs": 12, "batch_size": 1, "trainer": {"checkpoint": {"every": 1000}}}
"""84 steps and one checkpoint, at the end."""


def test_a_job_goes_from_queued_to_succeeded(context, settings, add_job, records):
    job_id = add_job(trainer={"checkpoint": {"every": 1, "keep_last": 1}})
    supervise_next(context)
    job = records.job(job_id)
    assert (job.status, job.error, job.attempts, job.phase) == ("succeeded", None, 1, None)
    assert (job.step, job.total_steps, job.lease_token) == (4, 4, None)
    assert job.fine_tuned_model.startswith("ft:toy:")
    assert job.trained_tokens > 0
    codes = records.codes(job_id)
    assert "checkpoint.saved" in codes
    assert [code for code in codes if not code.startswith("checkpoint.")] == [
        "job.created",
        "job.queued",
        "job.started",
        "chunk_tokens.chosen",
        "canary.passed",
        "training.started",
        "step.chosen",
        *["step.completed"] * 4,
        "model.created",
        "job.succeeded",
    ]
    assert list(records.metrics(job_id, "train_loss")) == [1, 2, 3, 4]
    _is_stored_whole(context, records, job_id)
    assert records.results(job_id) == [
        {"step": event.data["step"], "loss": event.data["train_loss"]}
        for event in records.events(job_id)
        if event.type == "metrics"
    ]
    assert not (settings.runs_dir / job_id).exists()
    with context.database.begin() as session:
        attempt = session.get_one(AttemptRow, (job_id, 1))
    assert (attempt.outcome, attempt.worker) == ("succeeded", context.name)


def test_a_second_job_on_the_same_data_finds_its_rows_and_tells_their_lengths(
    context, add_job, records, training_file, chat_lines
):
    told = []
    for seed in (1, 2):
        job_id = add_job(seed=seed, training_file=training_file(chat_lines(7)))
        supervise_next(context)
        (event,) = (e for e in records.events(job_id) if e.data["code"] == "training.started")
        told.append(event)
    (first,), (second,) = (event.data["files"] for event in told)
    assert (first["cached"], second["cached"]) == (False, True)
    assert first["lengths"] == second["lengths"]
    assert sum(bucket["rows"] for bucket in first["lengths"]) == 7
    assert "rows by tokens: " in told[0].message


def test_a_doubled_ring_is_refused(context, add_job, claim, records):
    job_id = add_job()
    lease = claim(job_id)
    supervise_next(context)
    assert (records.job(job_id).status, records.job(job_id).attempts) == ("running", 1)
    assert records.job(job_id).lease_token == lease.token


def test_a_job_that_is_cancelled_stops_and_keeps_its_checkpoint(
    context, project, add_job, records, until, in_thread
):
    job_id = add_job(**LONG)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 2)
    with context.database.begin() as session:
        cancel_job(session, project, job_id)
    running.result()
    job = records.job(job_id)
    assert (job.status, job.error) == ("cancelled", None)
    assert job.step < 350
    assert max(records.checkpoints(job_id)) == job.step
    assert records.codes(job_id)[-1] == "job.cancelled"


def test_a_file_that_was_deleted_meanwhile_fails_the_job(context, project, add_job, records):
    job_id = add_job()
    file_id = records.job(job_id).spec["training_file"]
    with context.database.begin() as session:
        remove_file(session, project, file_id)
    supervise_next(context)
    job = records.job(job_id)
    assert job.status == "failed"
    assert (job.error["code"], job.error["param"]) == ("invalid_training_file", "training_file")
    assert file_id in job.error["message"]
    assert "upload the file again" in job.error["hint"]


def test_a_model_that_this_worker_lacks_fails_the_job(context, add_job, records):
    job_id = add_job(model="elsewhere")
    supervise_next(context)
    error = records.job(job_id).error
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert f"available: toy on worker {context.name}" in error["message"]
    assert error["hint"] == "every worker needs the same models as the API"


def test_what_the_trainer_says_of_its_failure_is_the_job_s_error(
    context, add_job, training_file, chat_lines, records
):
    lines = chat_lines(2) + chat_lines(1).replace(b"ab", b"ab" * 40)
    job_id = add_job(training_file=training_file(lines))
    supervise_next(context)
    error = records.job(job_id).error
    assert (error["code"], error["fault"]) == ("example_too_long", "user")
    assert "line 3" in error["message"]


def test_a_worker_that_lost_its_lease_ends_its_trainer_and_writes_nothing_more(
    context, add_job, records, until, in_thread, trainers
):
    job_id = add_job(**LONG)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    with context.database.begin() as session:
        session.get_one(JobRow, job_id).lease_expires_at = func.now() - timedelta(seconds=1)
        session.flush()  # In one transaction, or the worker would renew it in between.
        assert expire_leases(session, Retries(5, 0.0)) == [job_id]
        other = claim_job(session, job_id, worker="other", lease_s=60)
    taken = records.job(job_id)
    running.result()
    after = records.job(job_id)
    assert (after.lease_token, after.status) == (other.token, "running")
    assert (after.step, after.events_written) == (taken.step, taken.events_written)
    assert trainers() == []


def test_a_trainer_that_is_killed_is_tried_again_after_a_rest(
    add_job, records, until, in_thread, trainers
):
    job_id = add_job(**LONG)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    (pid,) = trainers()
    os.kill(pid, signal.SIGKILL)
    running.result()
    job = records.job(job_id)
    assert (job.status, job.failures, job.not_before is not None) == ("queued", 1, True)
    assert records.codes(job_id)[-1] == "job.retried"


def test_a_run_outlives_an_outage_of_the_database(add_job, records, until, in_thread, outage):
    job_id = add_job(**SHORT)
    running = in_thread()
    until(lambda: records.job(job_id).step >= 1)
    with outage():
        assert not running.done()
    running.result()
    assert (records.job(job_id).status, records.job(job_id).attempts) == ("succeeded", 1)
    assert list(records.metrics(job_id, "train_loss")) == list(range(1, 85))


def test_a_worker_that_is_told_to_end_hands_the_job_back_and_it_goes_on_elsewhere(
    context, add_job, records, until
):
    def end(*_):
        raise SystemExit

    job_id = add_job(**SHORT)
    before = signal.signal(signal.SIGUSR1, end)
    telling = Thread(
        target=lambda: (
            until(lambda: records.job(job_id).step >= 1),
            os.kill(os.getpid(), signal.SIGUSR1),
        )
    )
    telling.start()
    with pytest.raises(SystemExit):
        supervise_next(context)
    telling.join()
    signal.signal(signal.SIGUSR1, before)
    job = records.job(job_id)
    assert (job.status, job.attempts) == ("queued", 1)
    (stored,) = [step for step in records.checkpoints(job_id) if step == job.step]
    supervise_next(context)
    assert records.job(job_id).status == "succeeded"
    resumed = [event for event in records.events(job_id) if event.data["code"] == "job.resumed"]
    assert [event.data["step"] for event in resumed] == [stored]
    assert list(records.metrics(job_id, "train_loss")) == list(range(1, 85))


def _is_stored_whole(context, records, job_id):
    ((step, kept),) = records.checkpoints(job_id).items()
    files = {file.filename: file for file in kept}
    assert step == 4
    assert {"model.safetensors", "config.json", "training_state.pt", "manifest.json"} <= set(files)
    for file in kept:
        content = b"".join(context.blobs.read(file.blob_id))
        assert hashlib.sha256(content).hexdigest() == file.sha256
    training_file, results = 1, 1
    assert records.blob_count() == training_file + len(kept) + results

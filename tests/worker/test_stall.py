"""A trainer that lives and does nothing is ended, and its job is tried again."""

import os
import signal
from dataclasses import replace

from core.store.wishes import pause_job

LONG = {"n_epochs": 50, "batch_size": 1}


def test_a_trainer_that_stands_still_is_ended_and_its_job_tried_again(
    context, settings, add_job, records, until, in_thread, trainers
):
    impatient = settings.model_copy(update={"stall_floor_s": 1.0, "stall_factor": 2.0})
    job_id = add_job(**LONG)
    running = in_thread(replace(context, settings=impatient))
    until(lambda: records.job(job_id).step >= 2)
    (pid,) = trainers()
    os.kill(pid, signal.SIGSTOP)
    until(lambda: "job.stalled" in records.codes(job_id))
    running.result()
    job, events = records.job(job_id), records.events(job_id)
    assert (job.status, job.failures) == ("queued", 1)
    assert events[-1].data["code"] == "job.retried"
    assert events[-1].data["reason"] == "stalled"
    (stall,) = [event for event in events if event.data["code"] == "job.stalled"]
    assert (stall.level, stall.data["step"]) == ("warn", job.step)
    assert stall.data["seconds"] >= 1.0


def test_a_trainer_that_never_begins_is_ended_too(context, settings, add_job, records, in_thread):
    impatient = settings.model_copy(update={"start_limit_s": 0.2})
    job_id = add_job(**LONG)
    in_thread(replace(context, settings=impatient)).result()
    assert records.events(job_id)[-1].data["reason"] == "stalled"
    assert records.job(job_id).step == 0


def test_a_paused_trainer_that_stands_still_is_killed_and_paused(
    context, project, settings, add_job, records, until, in_thread, trainers
):
    strict = settings.model_copy(update={"stop_grace_s": 0.5})
    job_id = add_job(**LONG, trainer={"checkpoint": {"every": 2}})
    running = in_thread(replace(context, settings=strict))
    until(lambda: records.checkpoints(job_id))
    (pid,) = trainers()
    os.kill(pid, signal.SIGSTOP)
    with context.database.begin() as session:
        pause_job(session, project, job_id)
    running.result()
    job = records.job(job_id)
    assert (job.status, job.failures, job.error) == ("paused", 0, None)
    assert records.codes(job_id)[-1] == "job.paused"
    assert max(records.checkpoints(job_id)) <= job.step

"""Pause, resume and the queue through the stock client."""

import pytest
from openai import BadRequestError

from core.store.attempts import stop_attempt, succeed_job
from core.store.workers import report_worker


@pytest.fixture
def jobs(openai):
    """As users have it: its list of statuses lacks `paused`, which OpenAI's own example shows."""
    openai._strict_response_validation = False
    return openai.fine_tuning.jobs


def test_a_waiting_job_is_paused_and_resumed(jobs, body):
    job = jobs.create(**body)
    paused = jobs.pause(job.id)
    assert (paused.status, paused.phase, paused.finished_at) == ("paused", None, None)
    assert jobs.pause(job.id) == paused
    resumed = jobs.resume(job.id)
    assert (resumed.status, jobs.resume(job.id)) == ("queued", resumed)


def test_a_running_job_is_asked_to_pause_and_rests_once_its_worker_let_go(jobs, run_job, database):
    lease = run_job()
    asked = jobs.pause(lease.job_id)
    assert (asked.status, asked.phase) == ("running", "pausing")
    with database.begin() as session:
        stop_attempt(session, lease, "asked to")
    assert jobs.retrieve(lease.job_id).status == "paused"
    codes = [event.data["code"] for event in jobs.list_events(lease.job_id).data]
    assert codes[:2] == ["job.paused", "job.pause_requested"]


@pytest.mark.parametrize("wish", ["pause", "resume", "cancel"])
def test_a_job_that_ended_refuses_and_says_so(jobs, run_job, database, wish):
    lease = run_job()
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=1)
    with pytest.raises(BadRequestError, match="has already succeeded") as refused:
        getattr(jobs, wish)(lease.job_id)
    assert refused.value.code == "invalid_job_state"


def test_a_queued_job_tells_its_place_and_why_it_waits(jobs, body, database):
    first = jobs.create(**body)
    second = jobs.create(**body, extra_body={"trainer": {"priority": "high"}})
    assert (second.queue["position"], second.queue["reason"]) == (1, "no_worker")
    with database.begin() as session:
        report_worker(session, "w", version="1", device="cpu", device_bytes=None)
    places = {job.id: job.queue for job in jobs.list().data}
    # Other tests' jobs may stand between the two: the database is theirs as well.
    assert places[first.id]["position"] > places[second.id]["position"] == 1
    assert places[first.id]["reason"] == "workers_busy"


def test_a_job_that_does_not_wait_has_no_place(jobs, run_job):
    job = jobs.retrieve(run_job().job_id)
    assert job.queue is None
    assert job.memory == {"predicted_bytes": None, "measured_bytes": None}

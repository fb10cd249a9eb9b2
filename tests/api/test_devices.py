"""More devices than the workers have are refused at submission, with what would fit."""

import pytest
from openai import BadRequestError

from core.store.workers import live_workers, remove_worker, report_worker


@pytest.fixture
def workers(database):
    """These and no others are there: of each, how many devices it gives to one job."""
    names = []

    def say(*devices: int) -> None:
        with database.begin() as session:
            for row in live_workers(session):
                remove_worker(session, row.name)
            for count in devices:
                names.append(f"of-{count}")
                report_worker(
                    session, names[-1], version="1", device="A", device_bytes=9, devices=count
                )

    yield say
    with database.begin() as session:
        for name in names:
            remove_worker(session, name)


@pytest.fixture
def ask(openai, body):
    """Submits a job on so many devices."""

    def do(devices: int, **trainer):
        trainer["parallel"] = {"devices": devices}
        return openai.fine_tuning.jobs.create(**body, extra_body={"trainer": trainer})

    return do


@pytest.mark.parametrize("trainer", [{}, {"dry_run": True}])
def test_devices_that_no_worker_has_are_refused_with_what_would_fit(ask, workers, trainer):
    workers(1, 2)
    with pytest.raises(BadRequestError, match="use devices: 2") as refused:
        ask(8, **trainer)
    assert (refused.value.param, refused.value.code) == (
        "trainer.parallel.devices",
        "too_few_devices",
    )
    assert "8 are asked for, and the largest worker gives 2" in refused.value.message


def test_the_plan_refuses_them_too(client, body, workers):
    workers(2)
    answer = client.post("/v1/trainer/plan", json={**body, "trainer": {"parallel": {"devices": 3}}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "too_few_devices")


def test_what_the_largest_worker_has_is_taken_and_waits_when_that_is_gone(openai, ask, workers):
    workers(1, 2)
    job = ask(2)
    assert job.queue["reason"] == "workers_busy"
    workers(1)
    waits = openai.fine_tuning.jobs.retrieve(job.id)
    assert (waits.status, waits.queue["reason"]) == ("queued", "too_few_devices")


def test_without_a_worker_a_job_waits_for_one(ask, workers):
    workers()
    job = ask(8)
    assert (job.status, job.queue["reason"]) == ("queued", "no_worker")
    assert job.trainer["parallel"]["devices"] == 8

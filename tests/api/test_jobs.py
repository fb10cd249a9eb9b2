"""Jobs through the stock client: created, listed, read and cancelled."""

import pytest
from openai import BadRequestError, NotFoundError

from core.store.attempts import succeed_job


def test_a_job_is_created_with_every_default(openai, body):
    job = openai.fine_tuning.jobs.create(**body)
    assert (job.object, job.status, job.phase) == (
        "fine_tuning.job",
        "queued",
        "waiting_for_worker",
    )
    assert (job.model, job.training_file) == ("tiny", body["training_file"])
    assert job.hyperparameters.n_epochs == 3
    assert job.method.supervised.hyperparameters.batch_size == 8
    assert (job.trainer["context_length"], job.trainer["learning_rate"]) == (512, 5e-5)
    assert (job.error, job.fine_tuned_model, job.result_files) == (None, None, [])
    assert openai.fine_tuning.jobs.retrieve(job.id) == job


def test_what_was_asked_for_is_echoed(openai, body, training_file):
    validation = training_file()
    job = openai.fine_tuning.jobs.create(
        **body,
        validation_file=validation,
        suffix="my-model.v1",
        seed=7,
        metadata={"team": "a"},
        method={
            "type": "supervised",
            "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": "auto"}},
        },
        extra_body={"trainer": {"context_length": 64, "optimizer": {"kind": "apollo", "rank": 4}}},
    )
    assert (job.validation_file, job.seed, job.metadata) == (validation, 7, {"team": "a"})
    assert job.user_provided_suffix == "my-model.v1"
    assert (job.hyperparameters.n_epochs, job.hyperparameters.batch_size) == (2, 8)
    assert job.trainer["optimizer"]["rank"] == 4
    assert (job.trainer["context_length"], job.trainer["tokens_per_pass"]) == (64, 64)


def test_deprecated_hyperparameters_are_taken(openai, body):
    job = openai.fine_tuning.jobs.create(
        **body, hyperparameters={"n_epochs": 5, "learning_rate_multiplier": 2.0}
    )
    assert (job.hyperparameters.n_epochs, job.trainer["learning_rate"]) == (5, 1e-4)


def test_the_trainer_that_is_echoed_can_be_sent_again(openai, body):
    first = openai.fine_tuning.jobs.create(**body)
    again = openai.fine_tuning.jobs.create(**body, extra_body={"trainer": first.trainer})
    assert again.trainer == first.trainer


def test_a_seed_that_was_not_given_is_drawn_and_told(openai, body):
    seeds = {openai.fine_tuning.jobs.create(**body).seed for _ in range(5)}
    assert len(seeds) > 1


def test_a_job_whose_file_is_not_checked_yet_waits(openai, training_file):
    file_id = training_file(prepared=False)
    job = openai.fine_tuning.jobs.create(model="tiny", training_file=file_id)
    assert job.status == "validating_files"


def test_a_waiting_job_is_cancelled_and_stays_so(openai, body):
    job = openai.fine_tuning.jobs.create(**body)
    cancelled = openai.fine_tuning.jobs.cancel(job.id)
    assert (cancelled.status, cancelled.finished_at is not None) == ("cancelled", True)
    assert openai.fine_tuning.jobs.cancel(job.id) == cancelled


def test_a_running_job_is_asked_to_stop(openai, run_job):
    job_id = run_job().job_id
    job = openai.fine_tuning.jobs.cancel(job_id)
    assert (job.status, job.phase, job.progress["attempts"]) == ("running", "cancelling", 1)
    assert openai.fine_tuning.jobs.cancel(job_id) == job


def test_a_job_that_succeeded_cannot_be_cancelled(openai, run_job, database):
    lease = run_job()
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=9)
    with pytest.raises(BadRequestError) as error:
        openai.fine_tuning.jobs.cancel(lease.job_id)
    assert error.value.code == "invalid_job_state"
    job = openai.fine_tuning.jobs.retrieve(lease.job_id)
    assert (job.status, job.trained_tokens) == ("succeeded", 9)
    assert job.fine_tuned_model.startswith("ft:tiny:org-castalia:s:")


def test_a_job_that_does_not_exist_is_not_found(openai):
    jobs = openai.fine_tuning.jobs
    for use in (jobs.retrieve, jobs.cancel, jobs.list_events, jobs.checkpoints.list):
        with pytest.raises(NotFoundError) as error:
            use("ftjob-none")
        assert error.value.param == "id"


def test_jobs_of_another_project_do_not_exist(openai, stranger, body):
    job = openai.fine_tuning.jobs.create(**body)
    path = f"/v1/fine_tuning/jobs/{job.id}"
    for method, end in [("GET", ""), ("POST", "/cancel"), ("GET", "/events")]:
        assert stranger.request(method, path + end).status_code == 404
    assert stranger.get(path + "/checkpoints").status_code == 404
    assert stranger.get("/v1/fine_tuning/jobs").json()["data"] == []
    assert stranger.get(f"/v1/fine_tuning/jobs?after={job.id}").status_code == 404
    assert stranger.post("/v1/fine_tuning/jobs", json=body).json()["error"]["code"] == (
        "file_not_found"
    )
    assert openai.fine_tuning.jobs.retrieve(job.id).status == "queued"

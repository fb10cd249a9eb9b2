"""Tuned models and checkpoints are deleted, shared and started from: by their own project's will alone."""

import pytest
from openai import APIStatusError, BadRequestError, NotFoundError, PermissionDeniedError

from core.store.attempts import succeed_job
from core.store.checkpoints import StoredFile, add_checkpoint
from core.store.tables import BlobRow

WEIGHTS = (("model.safetensors", "weights"), ("config.json", "config"), ("tok.json", "tokenizer"))
ADAPTER = (("adapter_model.safetensors", "adapter"), ("tok.json", "tokenizer"))


@pytest.fixture
def tuned(database, blobs, run_job):
    """A job that succeeded with the checkpoints 3 and 6; its id and its model's name."""

    def make(files=WEIGHTS, **fields):
        lease = run_job(**fields)
        for step in (3, 6):
            stored = [StoredFile(path, kind, blobs.write([b"x"])) for path, kind in files]
            with database.begin() as session:
                add_checkpoint(session, lease, step=step, metrics={}, files=stored)
        with database.begin() as session:
            succeed_job(session, lease, trained_tokens=1)
        return lease.job_id, f"ft:tiny:org-castalia:s:{lease.job_id[6:14]}"

    return make


@pytest.fixture
def start(openai, training_file):
    def do(model, client=None):
        client = client or openai
        return client.fine_tuning.jobs.create(model=model, training_file=training_file())

    return do


@pytest.fixture
def other(openai, stranger):
    """The stock client of another project, and that project's id."""
    key = stranger.headers["authorization"].removeprefix("Bearer ")
    return openai.with_options(api_key=key, http_client=stranger)


@pytest.fixture
def other_project(database, stranger):
    from core.store.keys import authenticate

    with database.begin() as session:
        secret = stranger.headers["authorization"].removeprefix("Bearer ")
        return authenticate(session, secret).project_id


def blob_count(database):
    with database.begin() as session:
        return session.query(BlobRow).count()


def test_a_deleted_model_is_gone_with_its_bytes_and_the_other_checkpoint_stays(
    openai, database, tuned
):
    job_id, name = tuned()
    before = blob_count(database)
    gone = openai.models.delete(name)
    assert (gone.id, gone.object, gone.deleted) == (name, "model", True)
    assert blob_count(database) == before - len(WEIGHTS)
    for form in (name, f"{name}:ckpt-step-6"):
        with pytest.raises(NotFoundError):
            openai.models.retrieve(form)
    with pytest.raises(NotFoundError):
        openai.models.delete(name)
    assert name not in [model.id for model in openai.models.list()]
    assert openai.fine_tuning.jobs.retrieve(job_id).fine_tuned_model == name
    assert openai.models.retrieve(f"{name}:ckpt-step-3").id == f"{name}:ckpt-step-3"


def test_an_older_checkpoint_is_deleted_alone(openai, tuned):
    job_id, name = tuned()
    openai.models.delete(f"{name}:ckpt-step-3")
    assert openai.models.retrieve(name).id == name
    left = openai.fine_tuning.jobs.checkpoints.list(job_id)
    assert [checkpoint.step_number for checkpoint in left] == [6]


def test_a_base_model_is_not_deleted(openai):
    with pytest.raises(PermissionDeniedError) as refused:
        openai.models.delete("org/tiny")
    assert refused.value.code == "model_not_deletable"


def test_a_model_from_which_a_job_starts_is_not_deleted_until_that_has_ended(openai, tuned, start):
    _, name = tuned()
    job = start(f"{name}:ckpt-step-6")
    for form in (name, f"{name}:ckpt-step-6"):
        with pytest.raises(APIStatusError) as refused:
            openai.models.delete(form)
        assert (refused.value.status_code, refused.value.code) == (409, "model_in_use")
        assert refused.value.response.headers["x-should-retry"] == "false"
    openai.fine_tuning.jobs.cancel(job.id)
    assert openai.models.delete(name).deleted


def test_a_checkpoint_of_a_job_that_goes_on_is_neither_deleted_nor_started_from(
    openai, run_job, database, start
):
    lease = run_job()
    with database.begin() as session:
        add_checkpoint(session, lease, step=2, metrics={}, files=[])
    name = f"ft:tiny:org-castalia:s:{lease.job_id[6:14]}:ckpt-step-2"
    with pytest.raises(APIStatusError) as in_use:
        openai.models.delete(name)
    assert in_use.value.status_code == 409
    with pytest.raises(BadRequestError) as unready:
        start(name)
    assert (unready.value.code, unready.value.param) == ("model_not_ready", "model")


@pytest.mark.parametrize("form", ["{}", "{}:ckpt-step-3"])
def test_a_job_starts_from_a_tuned_model_within_the_limits_of_its_base(tuned, start, form):
    _, name = tuned()
    job = start(form.format(name))
    assert job.model == form.format(name)
    assert job.trainer["context_length"] == 512


def test_an_adapter_alone_is_refused_with_the_remedy_and_a_merged_one_is_not(tuned, start):
    _, alone = tuned(ADAPTER)
    with pytest.raises(BadRequestError, match=r"adapter\.merge: true") as refused:
        start(alone)
    assert (refused.value.code, refused.value.param) == ("model_not_trainable", "model")
    _, merged = tuned((*ADAPTER, ("merged/model.safetensors", "weights")))
    assert start(merged).model == merged


def test_a_stranger_neither_starts_from_a_model_nor_deletes_it(stranger, other, tuned, start):
    _, name = tuned()
    with pytest.raises(NotFoundError) as refused:
        start(name, other)
    assert refused.value.code == "model_not_found"
    assert stranger.delete(f"/v1/models/{name}").status_code == 404
    assert stranger.get(f"/v1/fine_tuning/checkpoints/{name}/permissions").status_code == 404


def test_a_shared_checkpoint_is_seen_by_its_name_and_nothing_else_is(
    openai, stranger, other, other_project, tuned
):
    job_id, name = tuned()
    shared = openai.fine_tuning.checkpoints.permissions
    (first,) = shared.create(name, project_ids=[other_project]).data
    assert (first.object, first.project_id) == ("checkpoint.permission", other_project)
    (again,) = shared.create(name, project_ids=[other_project]).data
    assert again.id == first.id
    assert other.models.retrieve(name).id == name
    assert name not in [model.id for model in other.models.list()]
    assert stranger.get(f"/v1/models/{name}:ckpt-step-3").status_code == 404
    assert stranger.delete(f"/v1/models/{name}").status_code == 404
    assert stranger.get(f"/v1/fine_tuning/jobs/{job_id}/checkpoints").status_code == 404
    assert stranger.get(f"/v1/fine_tuning/checkpoints/{name}/permissions").status_code == 404
    assert [one.id for one in shared.list(name, project_id=other_project)] == [first.id]
    assert list(shared.list(name, project_id="proj_none")) == []
    gone = shared.delete(first.id, fine_tuned_model_checkpoint=name)
    assert (gone.id, gone.object, gone.deleted) == (first.id, "checkpoint.permission", True)
    with pytest.raises(NotFoundError):
        other.models.retrieve(name)
    with pytest.raises(NotFoundError):
        shared.delete(first.id, fine_tuned_model_checkpoint=name)


def test_a_checkpoint_is_shared_with_projects_that_there_are(openai, tuned):
    _, name = tuned()
    with pytest.raises(NotFoundError, match="proj_none"):
        openai.fine_tuning.checkpoints.permissions.create(name, project_ids=["proj_none"])

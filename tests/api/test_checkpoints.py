"""Checkpoints are listed with their files, and each file can be downloaded."""

import hashlib

import pytest
from openai import BadRequestError

from core.store.attempts import succeed_job
from core.store.checkpoints import StoredFile, add_checkpoint


@pytest.fixture
def save(database, blobs):
    def do(lease, step: int) -> None:
        file = StoredFile("model.safetensors", "weights", blobs.write([b"w" * step]))
        with database.begin() as session:
            metrics = {"train_loss": 1.5}
            add_checkpoint(session, lease, step=step, metrics=metrics, files=[file])

    return do


def test_checkpoints_come_newest_first_with_their_files(openai, run_job, save):
    lease = run_job()
    for step in (2, 4, 6):
        save(lease, step)
    found = list(openai.fine_tuning.jobs.checkpoints.list(lease.job_id, limit=1))
    assert [checkpoint.step_number for checkpoint in found] == [6, 4, 2]
    newest = found[0]
    assert (newest.object, newest.fine_tuning_job_id) == (
        "fine_tuning.job.checkpoint",
        lease.job_id,
    )
    assert (newest.metrics.step, newest.metrics.train_loss) == (6, 1.5)
    (file,) = newest.files
    assert (file["path"], file["kind"], file["bytes"]) == ("model.safetensors", "weights", 6)


def test_a_file_of_a_checkpoint_is_downloaded_as_any_other(openai, client, run_job, save):
    lease = run_job()
    save(lease, 5)
    ((file,),) = [c.files for c in openai.fine_tuning.jobs.checkpoints.list(lease.job_id)]
    content = openai.files.content(file["id"]).read()
    assert content == b"wwwww"
    assert hashlib.sha256(content).hexdigest() == file["sha256"]
    assert client.get(f"/v1/files/{file['id']}").json()["purpose"] == "checkpoint"


def test_a_checkpoint_bears_the_name_of_the_model_to_come(openai, run_job, save, database):
    lease = run_job()
    save(lease, 3)
    (checkpoint,) = openai.fine_tuning.jobs.checkpoints.list(lease.job_id)
    with database.begin() as session:
        succeed_job(session, lease, trained_tokens=1)
    model = openai.fine_tuning.jobs.retrieve(lease.job_id).fine_tuned_model
    assert checkpoint.fine_tuned_model_checkpoint == f"{model}:ckpt-step-3"


def test_a_job_without_checkpoints_has_an_empty_list(openai, run_job):
    assert list(openai.fine_tuning.jobs.checkpoints.list(run_job().job_id)) == []


def test_another_project_sees_neither_checkpoints_nor_their_files(openai, stranger, run_job, save):
    lease = run_job()
    save(lease, 1)
    (checkpoint,) = openai.fine_tuning.jobs.checkpoints.list(lease.job_id)
    file_id = checkpoint.files[0]["id"]
    assert stranger.get(f"/v1/fine_tuning/jobs/{lease.job_id}/checkpoints").status_code == 404
    assert stranger.get(f"/v1/files/{file_id}/content").status_code == 404


def test_a_file_of_a_checkpoint_cannot_be_deleted_alone(openai, run_job, save):
    lease = run_job()
    save(lease, 1)
    ((file,),) = [c.files for c in openai.fine_tuning.jobs.checkpoints.list(lease.job_id)]
    with pytest.raises(BadRequestError, match="part of a checkpoint"):
        openai.files.delete(file["id"])
    assert openai.files.content(file["id"]).read()

"""A stock client goes the whole way, through the very functions of examples/openai_client.py."""

import importlib.util
from pathlib import Path

import openai
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("openai_client", EXAMPLES / "openai_client.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def create(client, example, rows_file):
    def do(rows=16, epochs=2, **trainer):
        return client.fine_tuning.jobs.create(
            model="toy",
            training_file=example.upload(client, rows_file(rows)),
            validation_file=example.upload(client, rows_file(4, "valid.jsonl")),
            suffix="e2e",
            metadata={"team": "tests"},
            method={"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": epochs}}},
            extra_body={"trainer": {"learning_rate": 3e-3, **trainer}},
        )

    return do


def test_from_upload_to_an_answer_of_the_downloaded_model(client, example, create, tmp_path):
    job = create()
    messages, steps = [], []

    def tell(_, news):
        messages.extend(event.message for event in news)
        steps.extend(event.data["step"] for event in news if event.type == "metrics")

    job = example.follow(client, job.id, tell)
    assert job.status == "succeeded", job.error
    assert job.error is None
    assert job.fine_tuned_model == f"ft:toy:org-castalia:e2e:{job.id.removeprefix('ftjob-')[:8]}"
    assert messages[0] == f"Created fine-tuning job: {job.id}"
    assert messages[-1] == "The job has successfully completed"
    assert steps == sorted(steps)
    checkpoints = list(client.fine_tuning.jobs.checkpoints.list(job.id))
    assert [checkpoint.step_number for checkpoint in checkpoints] == [4, 2]
    assert checkpoints[0].metrics.full_valid_loss < 5.6
    folder = example.download(client, checkpoints[0], tmp_path / "tuned")
    assert isinstance(example.answer(folder, "1 ?", max_new_tokens=4), str)
    model = client.models.retrieve(job.fine_tuned_model)
    assert model.id in [listed.id for listed in client.models.list()]


def test_a_running_job_is_cancelled_after_its_step(client, example, create):
    job = create(rows=64, epochs=50)

    def tell(job, news):
        if any(event.type == "metrics" and event.data["step"] == 1 for event in news):
            client.fine_tuning.jobs.cancel(job.id)

    job = example.follow(client, job.id, tell)
    assert job.status == "cancelled"
    assert client.fine_tuning.jobs.checkpoints.list(job.id).data


def test_a_broken_file_is_told_by_line(client, example, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"messages": []}\n{"messages": \n')
    with pytest.raises(SystemExit, match="line 1"):
        example.upload(client, path)
    file = next(iter(client.files.list()))
    assert file.status == "error"
    assert [problem["line"] for problem in file.validation["problems"]] == [1, 2]
    with pytest.raises(openai.BadRequestError) as refused:
        client.fine_tuning.jobs.create(model="toy", training_file=file.id)
    assert refused.value.param == "training_file"


def test_rows_that_are_too_long_fail_the_job_and_name_the_line(client, example, create):
    job = example.follow(client, create(context_length=16).id, lambda *_: None)
    assert job.status == "failed"
    assert job.error.code == "example_too_long"
    assert "line 1" in job.error.message

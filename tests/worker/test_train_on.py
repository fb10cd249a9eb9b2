"""A job that starts from another's result begins where that one ended."""

import pytest

from worker.supervise import supervise_next

FULL_BATCH = {"batch_size": 7, "n_epochs": 4}
STEADY = {"learning_rate": 3e-3, "schedule": {"kind": "constant"}, "canary": False}


@pytest.fixture
def train(context, add_job, records):
    def do(**spec):
        job_id = add_job(**FULL_BATCH, **spec)
        supervise_next(context)
        assert records.job(job_id).error is None
        return records.job(job_id)

    return do


def test_the_first_loss_of_the_second_is_the_loss_after_the_last_step_of_the_first(
    train, records, training_file, chat_lines
):
    file = training_file(chat_lines(7))
    first = train(training_file=file, validation_file=file, trainer=STEADY)
    ended = records.metrics(first.id, "full_valid_loss")[4]
    name = f"{first.fine_tuned_model}:ckpt-step-4"
    second = train(training_file=file, model=name, base_model="toy", trainer=STEADY)
    losses = records.metrics(second.id, "train_loss")
    assert losses[1] == pytest.approx(ended, rel=1e-5)
    assert losses[1] < records.metrics(first.id, "train_loss")[4]
    assert second.fine_tuned_model.startswith("ft:toy:org-castalia:")


def test_a_merged_adapter_is_started_from_as_a_whole_model(
    train, records, training_file, chat_lines
):
    file = training_file(chat_lines(7))
    lora = {**STEADY, "adapter": {"kind": "lora", "rank": 4, "merge": True}}
    first = train(training_file=file, validation_file=file, trainer=lora)
    ended = records.metrics(first.id, "full_valid_loss")[4]
    second = train(
        training_file=file, model=first.fine_tuned_model, base_model="toy", trainer=STEADY
    )
    assert records.metrics(second.id, "train_loss")[1] == pytest.approx(ended, rel=1e-4)


def test_a_model_that_was_deleted_meanwhile_fails_the_job(context, add_job, records):
    job_id = add_job(model="ft:toy:org-castalia::gone", base_model="toy")
    supervise_next(context)
    error = records.job(job_id).error
    assert (error["code"], error["param"], error["fault"]) == ("model_not_found", "model", "user")
    assert "no longer shared" in error["message"]

"""Every objective by the stock client: from rows uploaded to metrics of its own and weights that load."""

import json
import time

import pytest
import torch
from transformers import AutoModelForCausalLM

LIMIT_S = 240
ROWS = 8
SHORT = {"context_length": 128, "learning_rate": 1e-3}
GRADER = {
    "type": "string_check",
    "name": "has e",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.letter }}",
    "operation": "ilike",
}


def question(number):
    return [{"role": "user", "content": f"Say {number}."}]


def answer(text):
    return [{"role": "assistant", "content": text}]


def text_row(number):
    return {"text": f"The number {number} is one more than {number - 1}. " * 2}


def pair_row(number):
    return {
        "input": {"messages": question(number)},
        "preferred_output": answer(f"It is {number}."),
        "non_preferred_output": answer("No."),
    }


def prompt_row(number):
    return {"messages": question(number), "letter": "e"}


CASES = {
    "pretrain": (
        text_row,
        {"extra_body": {"trainer": {**SHORT, "objective": {"kind": "pretrain"}}}},
        {"full_valid_loss"},
    ),
    "dpo": (
        pair_row,
        {
            "method": {"type": "dpo", "dpo": {"hyperparameters": {"beta": 0.2, "n_epochs": 1}}},
            "extra_body": {"trainer": SHORT},
        },
        {"full_valid_loss", "valid_reward_accuracy", "valid_reward_margin"},
    ),
    "reinforcement": (
        prompt_row,
        {
            "method": {
                "type": "reinforcement",
                "reinforcement": {
                    "grader": GRADER,
                    "hyperparameters": {"n_epochs": 1, "batch_size": 4},
                },
            },
            "extra_body": {
                "trainer": {
                    **SHORT,
                    "objective": {"kind": "grpo", "group_size": 4, "max_completion_tokens": 16},
                }
            },
        },
        {"valid_reward_mean", "valid_truncated_share"},
    ),
    "lora": (
        pair_row,
        {
            "method": {"type": "dpo"},
            "extra_body": {"trainer": {**SHORT, "adapter": {"kind": "lora", "merge": True}}},
        },
        {"valid_reward_accuracy"},
    ),
}


@pytest.fixture
def trained(client, tmp_path):
    """Upload rows, ask for a job, wait for its end; the job, its checkpoint's files, its metrics."""

    def upload(row, name, first):
        path = tmp_path / name
        numbers = range(first, first + ROWS)
        path.write_text("".join(json.dumps(row(number)) + "\n" for number in numbers))
        return client.files.create(file=path, purpose="fine-tune").id

    def train(row, asked):
        job = client.fine_tuning.jobs.create(
            model="toy",
            training_file=upload(row, "train.jsonl", 1),
            validation_file=upload(row, "valid.jsonl", 100),
            **asked,
        )
        deadline = time.monotonic() + LIMIT_S
        while job.status not in ("succeeded", "failed", "cancelled"):
            assert time.monotonic() < deadline, job
            time.sleep(0.3)
            job = client.fine_tuning.jobs.retrieve(job.id)
        assert job.status == "succeeded", job.error
        checkpoint = client.fine_tuning.jobs.checkpoints.list(job.id).data[0]
        return job, checkpoint

    return train


def download(client, checkpoint, folder, below=""):
    for file in checkpoint.files:
        if file["path"].startswith(below):
            path = folder / file["path"].removeprefix(below)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(client.files.content(file["id"]).read())
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_job_of_each_objective_ends_with_its_metrics_and_weights(client, trained, tmp_path, name):
    row, asked, metrics = CASES[name]
    job, checkpoint = trained(row, asked)
    events = client.fine_tuning.jobs.list_events(job.id, limit=100).data
    told = {key for event in events if event.type == "metrics" for key in event.data}
    assert metrics <= told
    merged = "merged/" if name == "lora" else ""
    model = AutoModelForCausalLM.from_pretrained(
        download(client, checkpoint, tmp_path / "tuned", merged)
    )
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())
    asked_for = asked.get("method", {"type": "supervised"})
    assert job.method.type == asked_for["type"]

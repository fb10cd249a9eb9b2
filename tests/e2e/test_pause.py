"""A job is paused and resumed over HTTP, and ends with the very bits of an undisturbed run."""

import json
import os
import subprocess
import sys

import pytest

NUMBERS = {"n_epochs": 30, "batch_size": 4}
TRAINER = {
    "learning_rate": 3e-3,
    "optimizer": {"kind": "apollo_mini", "update_proj_gap": 5},
    "checkpoint": {"every": 1_000_000},
}
STEPS = 300


@pytest.fixture(scope="module")
def prompt(start_up):
    """A service that looks often."""
    return start_up(CASTALIA_LEASE_S="8", CASTALIA_POLL_S="0.1", CASTALIA_SWEEP_S="0.5")


@pytest.fixture
def alone(tmp_path, toy_model):
    """The weights of a run of these rows that nobody disturbed."""

    def run(rows):
        spec = {"model": str(toy_model), "training_file": str(rows), "seed": 3}
        spec |= {"hyperparameters": NUMBERS, "trainer": TRAINER}
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        command = [sys.executable, "-m", "core.train", tmp_path / "spec.json"]
        subprocess.run(
            [*command, "--out", tmp_path / "run"],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        (last,) = (tmp_path / "run" / "checkpoints").glob(f"step-{STEPS:08d}")
        return (last / "model.safetensors").read_bytes()

    return run


def test_a_job_that_was_paused_ends_as_if_it_had_not_been(prompt, wait_for, rows_file, alone):
    rows = rows_file(40)
    with prompt.client as client:
        jobs = client.fine_tuning.jobs
        file = client.files.create(file=rows, purpose="fine-tune")
        job_id = jobs.create(
            model="toy",
            training_file=file.id,
            seed=3,
            method={"type": "supervised", "supervised": {"hyperparameters": NUMBERS}},
            extra_body={"trainer": TRAINER},
        ).id
        wait_for(lambda: jobs.retrieve(job_id).progress["step"] >= 2, prompt)
        jobs.pause(job_id)
        wait_for(lambda: jobs.retrieve(job_id).status == "paused", prompt)
        paused = jobs.retrieve(job_id)
        (checkpoint,) = jobs.checkpoints.list(job_id).data
        assert checkpoint.step_number == paused.progress["step"] < STEPS
        assert jobs.pause(job_id).status == "paused"
        jobs.resume(job_id)
        wait_for(lambda: jobs.retrieve(job_id).status == "succeeded", prompt)
        codes = [event.data["code"] for event in jobs.list_events(job_id, limit=500)]
        assert codes.count("job.paused") == codes.count("job.resumed") == 1
        assert codes.count("step.completed") == STEPS
        newest = jobs.checkpoints.list(job_id).data[0]
        (weights,) = [file for file in newest.files if file["kind"] == "weights"]
        assert client.files.content(weights["id"]).read() == alone(rows)

"""A worker group is killed in mid-run: the job goes on elsewhere, to the very same bits."""

import json
import os
import signal
import subprocess
import sys

import pytest

SPEC = {
    "model": "toy",
    "seed": 3,
    "hyperparameters": {"n_epochs": 6, "batch_size": 4},
    "trainer": {
        "learning_rate": 3e-3,
        "optimizer": {"kind": "apollo_mini", "update_proj_gap": 5},
        "checkpoint": {"every": 4, "keep_last": 2},
    },
}


@pytest.fixture(scope="module")
def hasty(start_up):
    """A service whose leases are short."""
    return start_up(CASTALIA_LEASE_S="4", CASTALIA_POLL_S="0.1", CASTALIA_SWEEP_S="0.5")


def weights(client, job_id):
    checkpoint = client.fine_tuning.jobs.checkpoints.list(job_id).data[0]
    (file,) = [file for file in checkpoint.files if file["kind"] == "weights"]
    return client.files.content(file["id"]).read()


def run_alone(tmp_path, rows, toy_model):
    spec = {**SPEC, "model": str(toy_model), "training_file": str(rows)}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    command = [
        sys.executable,
        "-m",
        "core.train",
        tmp_path / "spec.json",
        "--out",
        tmp_path / "run",
    ]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=env, stderr=subprocess.DEVNULL)
    (last,) = (tmp_path / "run" / "checkpoints").glob("step-00000060")
    return (last / "model.safetensors").read_bytes()


def test_weights_after_a_takeover_are_those_of_an_undisturbed_run(
    hasty, wait_for, rows_file, toy_model, tmp_path
):
    rows = rows_file(40)
    with hasty.client as client:
        file = client.files.create(file=rows, purpose="fine-tune")
        job = client.fine_tuning.jobs.create(
            model="toy",
            training_file=file.id,
            seed=SPEC["seed"],
            method={
                "type": "supervised",
                "supervised": {"hyperparameters": SPEC["hyperparameters"]},
            },
            extra_body={"trainer": SPEC["trainer"]},
        )

        def now():
            return client.fine_tuning.jobs.retrieve(job.id)

        wait_for(lambda: client.fine_tuning.jobs.checkpoints.list(job.id).data, hasty)
        os.killpg(hasty.child_pid("worker", "--queue=train"), signal.SIGKILL)
        assert now().status == "running"
        wait_for(lambda: now().status == "succeeded", hasty)
        done = now()
        assert done.progress["attempts"] == 2
        codes = [e.data["code"] for e in client.fine_tuning.jobs.list_events(job.id, limit=500)]
        assert codes.count("worker.lost") == 1
        assert codes.count("job.resumed") == 1
        assert codes.count("step.completed") == 60
        assert weights(client, job.id) == run_alone(tmp_path, rows, toy_model)
    assert "train" in hasty.output.read_text().partition("crashed")[0].splitlines()[-1]

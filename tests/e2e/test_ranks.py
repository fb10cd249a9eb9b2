"""A job on two processes of a CPU, submitted with the stock client: it ends as on one, whatever dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from openai import OpenAI
from safetensors.torch import load, load_file

from api.settings import ApiSettings
from core.spec.bell import TRAIN_TASK
from core.store.workers import live_workers

NUMBERS = {"n_epochs": 4, "batch_size": 4}
TRAINER = {"learning_rate": 3e-3, "canary": True, "checkpoint": {"every": 4, "keep_last": 2}}
PARALLEL = {"parallel": {"devices": 2, "strategy": "fsdp"}}
STEPS = 40

pytestmark = pytest.mark.slow


@pytest.fixture
def client(serve, database_url, broker_url, toy_models_dir, secret):
    """Of an API beside the worker that a test starts."""
    settings = ApiSettings(
        database_url=database_url,
        broker_url=broker_url.removesuffix("/0") + "/3",
        models_dir=toy_models_dir,
    )
    with OpenAI(base_url=f"{serve(settings).url}/v1", api_key=secret) as client:
        yield client


@pytest.fixture
def submit(client, rows_file):
    """The same job each time, on two devices; its id."""

    def do() -> str:
        file = client.files.create(file=rows_file(40), purpose="fine-tune")
        method = {"type": "supervised", "supervised": {"hyperparameters": NUMBERS}}
        trainer = TRAINER | PARALLEL
        return client.fine_tuning.jobs.create(
            model="toy",
            training_file=file.id,
            seed=3,
            method=method,
            extra_body={"trainer": trainer},
        ).id

    return do


@pytest.fixture(scope="module")
def weights_alone(toy_model, chat_lines, tmp_path_factory):
    """Those of the job on one process, without a service."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "rows.jsonl").write_bytes(chat_lines(40))
    spec = {
        "model": str(toy_model),
        "training_file": str(folder / "rows.jsonl"),
        "seed": 3,
        "hyperparameters": NUMBERS,
        "trainer": TRAINER,
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    command = [sys.executable, "-m", "core.train", folder / "spec.json", "--out", folder / "run"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=env, stdout=subprocess.DEVNULL)
    return load_file(folder / "run" / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors")


@pytest.fixture
def check_weights(client, weights_alone):
    def check(job_id: str) -> None:
        checkpoint = client.fine_tuning.jobs.checkpoints.list(job_id).data[0]
        (file,) = [file for file in checkpoint.files if file["kind"] == "weights"]
        found = load(client.files.content(file["id"]).read())
        assert checkpoint.step_number == STEPS
        assert found.keys() == weights_alone.keys()
        for name, weight in weights_alone.items():
            torch.testing.assert_close(found[name], weight, rtol=0.0, atol=1e-5)

    return check


@pytest.fixture
def codes(client):
    """Of a job's events, with their data, oldest first."""

    def of(job_id: str) -> dict[str, dict]:
        events = client.fine_tuning.jobs.list_events(job_id, limit=500).data
        return {event.data["code"]: event.data for event in events[::-1]}

    return of


def test_a_job_on_two_devices_ends_as_on_one(worker, until, client, submit, codes, check_weights):
    worker("--devices-per-job=2")
    job_id = submit()
    until(lambda: client.fine_tuning.jobs.retrieve(job_id).status in ("succeeded", "failed"))
    assert client.fine_tuning.jobs.retrieve(job_id).error is None
    assert codes(job_id)["job.started"]["devices"] == 2
    check_weights(job_id)


def test_a_killed_rank_sends_the_job_back_when_all_have_ended_and_it_goes_on_with_fewer(
    worker, until, ring, database, tmp_path, client, submit, codes, check_weights
):
    many = worker("--devices-per-job=2", RETRY_FIRST_S="0")
    job_id = submit()
    until(lambda: client.fine_tuning.jobs.checkpoints.list(job_id).data)
    os.kill(ranks(tmp_path / "runs")[1], signal.SIGKILL)
    until(lambda: "job.retried" in codes(job_id))
    assert ranks(tmp_path / "runs") == {}
    told = codes(job_id)["job.retried"]
    assert told["reason"] == "killed"
    log = client.files.content(told["log_file_id"]).read().decode()
    assert "rank 1 was ended by signal 9" in log
    assert "== rank 0" in log
    many.send_signal(signal.SIGTERM)
    many.wait(120)
    until(lambda: client.fine_tuning.jobs.retrieve(job_id).status == "queued")
    worker("--queue=train", FEWER_DEVICES_AFTER_S="0")
    until(lambda: [row.devices for row in _listed(database)] == [1])
    ring(TRAIN_TASK, job_id)
    until(lambda: client.fine_tuning.jobs.retrieve(job_id).status in ("succeeded", "failed"))
    found = codes(job_id)
    assert (found["job.fewer_devices"]["asked"], found["job.fewer_devices"]["devices"]) == (2, 1)
    assert "job.resumed" in found
    check_weights(job_id)


def ranks(runs: Path) -> dict[int, int]:
    """Processes of the ranks that train below this folder, by rank."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
            environment = path.with_name("environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if bytes(runs) in words and b"--launcher" in words:
            (rank,) = [int(one[5:]) for one in environment if one.startswith(b"RANK=")]
            found[rank] = int(path.parent.name)
    return found


def _listed(database):
    with database.begin() as session:
        return live_workers(session)

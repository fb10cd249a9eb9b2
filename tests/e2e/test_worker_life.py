"""A worker that serves several jobs hands all of them back when it is told to end."""

import os
import signal
import subprocess
import sys
import time

import pytest

from core.store.queue import queued_jobs
from core.store.tables import JobRow
from core.store.workers import live_workers

LIMIT_S = 180


@pytest.fixture
def worker(database_url, broker_url, toy_models_dir, tmp_path):
    """Starts `castalia worker` for two jobs at once."""
    started = []

    def start():
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "CASTALIA_DATABASE_URL": database_url,
            "CASTALIA_BROKER_URL": broker_url.removesuffix("/0") + "/3",
            "CASTALIA_MODELS_DIR": str(toy_models_dir),
            "CASTALIA_RUNS_DIR": str(tmp_path / "runs"),
            "CASTALIA_CACHE_DIR": str(tmp_path / "cache"),
            "CASTALIA_POLL_S": "0.1",
        }
        command = [sys.executable, "-m", "castalia", "worker", "--queue=train", "--concurrency=2"]
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def ring(broker_url):
    from api.doorbell import Doorbell
    from core.spec.bell import TRAIN_TASK

    # Not the worker's own application, whose connections would stay with this broker for other tests.
    bell = Doorbell(broker_url.removesuffix("/0") + "/3")
    return lambda job_id: bell.ring(TRAIN_TASK, job_id)


@pytest.fixture
def add_job(database, project, training_file, chat_lines, toy_models_dir):
    from core.data.file_check import unfit_file
    from core.models.catalog import Catalog
    from core.spec.job import JobSpec
    from core.store.jobs import create_job

    def add():
        document = {"model": "toy", "training_file": training_file(chat_lines(64))}
        document["hyperparameters"] = {"n_epochs": 50, "batch_size": 1}
        spec = JobSpec.parse(document).resolved(Catalog(toy_models_dir).facts("toy"))
        with database.begin() as session:
            return create_job(session, project, spec, unfit=unfit_file).id

    return add


def until(condition, log):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_all_jobs_of_a_worker_are_handed_back_with_their_checkpoints(
    worker, ring, add_job, database, tmp_path
):
    jobs, log = [add_job(), add_job()], tmp_path / "log"

    def rows():
        with database.begin() as session:
            return [session.get_one(JobRow, job_id) for job_id in jobs]

    process = worker()
    for job_id in jobs:
        ring(job_id)
    until(lambda: all(row.step >= 1 for row in rows()), log)
    with database.begin() as session:
        (present,) = live_workers(session)
    assert (present.device_bytes or 0) > 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) is not None
    with database.begin() as session:
        assert sorted(queued_jobs(session)) == sorted(jobs)
        assert live_workers(session) == []
    assert [row.failures for row in rows()] == [0, 0]

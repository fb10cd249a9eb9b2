"""Two janitors as processes: one sweeps, and when it is killed the other goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from core.store.jobs import create_job
from core.store.leases import claim_job
from core.store.tables import JobRow

LIMIT_S = 120
LEADS = "this janitor sweeps from now on"


@pytest.fixture
def janitors(database_url, tmp_path):
    """Two that sweep a database often, and what each has said so far."""
    env = {
        **os.environ,
        "CASTALIA_DATABASE_URL": database_url,
        "CASTALIA_BROKER_URL": "redis://127.0.0.1:1/0",
        "CASTALIA_SWEEP_S": "0.1",
        "CASTALIA_LEASE_S": "0.5",
    }
    logs = [tmp_path / name for name in ("one", "other")]
    processes = []
    for log in logs:
        with log.open("w") as file:
            command = [sys.executable, "-m", "castalia", "janitor"]
            processes.append(subprocess.Popen(command, env=env, stdout=file, stderr=file))
    yield list(zip(processes, logs, strict=True))
    for process in processes:
        process.kill()
        process.wait()


def until(condition, *logs):
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, [log.read_text() for log in logs]
        time.sleep(0.05)
    return found


@pytest.fixture
def lost_job(database, project, training_file, toy_models_dir):
    """A job whose worker is not heard from."""
    from core.data.file_check import unfit_file
    from core.models.catalog import Catalog
    from core.spec.job import JobSpec

    def make():
        document = {"model": "toy", "training_file": training_file()}
        spec = JobSpec.parse(document).resolved(Catalog(toy_models_dir).facts("toy"))
        with database.begin() as session:
            job_id = create_job(session, project, spec, unfit=unfit_file).id
            assert claim_job(session, job_id, worker="w", lease_s=-1.0)
        return job_id

    return make


def test_the_second_takes_over_when_the_first_is_killed(janitors, lost_job, database):
    logs = [log for _, log in janitors]

    def taken_back(job_id):
        with database.begin() as session:
            return session.get_one(JobRow, job_id).status == "queued"

    def leader():
        return next((one for one in janitors if LEADS in one[1].read_text()), None)

    first = until(leader, *logs)
    (second,) = [one for one in janitors if one is not first]
    former = lost_job()
    until(lambda: taken_back(former), *logs)
    assert LEADS not in second[1].read_text()
    first[0].send_signal(signal.SIGKILL)
    until(lambda: LEADS in second[1].read_text(), *logs)
    later = lost_job()
    until(lambda: taken_back(later), *logs)
    second[0].send_signal(signal.SIGTERM)
    assert second[0].wait(LIMIT_S) == 0

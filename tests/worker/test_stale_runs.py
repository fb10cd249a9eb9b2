"""What a killed worker left on the disk is removed, and never a directory in which somebody may run."""

import os
import time

import pytest

from core.store.attempts import Retries, expire_leases, stop_attempt
from worker.layout import run_directory
from worker.stale_runs import StaleRuns, sweep_runs

OLD_S = 100.0


@pytest.fixture
def lease(add_job, claim):
    return claim(add_job())


@pytest.fixture
def left(context):
    """A run directory as a worker leaves it that is killed ``age_s`` ago."""

    def make(lease, age_s=2 * OLD_S):
        directory = run_directory(context, lease)
        (directory / "checkpoints").mkdir(parents=True)
        (directory / "events.jsonl").write_text("")
        for path in (*directory.iterdir(), directory):
            os.utime(path, (time.time() - age_s,) * 2)
        return directory

    return make


@pytest.fixture
def sweep(context):
    return lambda: sweep_runs(context.database, context.settings.runs_dir, OLD_S)


def hand_back(context, lease):
    with context.database.begin() as session:
        stop_attempt(session, lease, "for the test")


def test_the_directory_of_an_attempt_that_is_over_goes_with_that_of_its_job(
    context, lease, left, sweep
):
    directory = left(lease)
    hand_back(context, lease)
    assert sweep() == [directory]
    assert not directory.parent.exists()
    assert sweep() == []


def test_one_that_somebody_holds_stays_however_old(lease, left, sweep):
    directory = left(lease)
    assert sweep() == []
    assert directory.exists()


def test_one_whose_lease_ran_out_stays_until_it_is_taken_back(context, add_job, claim, left, sweep):
    lease = claim(add_job(), -1.0)
    directory = left(lease)
    assert sweep() == []
    with context.database.begin() as session:
        expire_leases(session, Retries())
    assert sweep() == [directory]


def test_a_former_attempt_goes_and_the_one_that_runs_now_stays(context, lease, left, claim, sweep):
    former = left(lease)
    hand_back(context, lease)
    now = left(claim(lease.job_id))
    assert sweep() == [former]
    assert now.exists()


def test_one_that_was_written_to_lately_stays(context, lease, left, sweep):
    directory = left(lease, age_s=OLD_S / 2)
    hand_back(context, lease)
    assert sweep() == []
    assert directory.exists()


def test_one_of_a_job_that_is_not_known_is_somebody_elses(context, lease, left, sweep):
    other = left(lease).parent.rename(context.settings.runs_dir / "ftjob-of-another-database")
    hand_back(context, lease)
    assert sweep() == []
    assert other.exists()


def test_a_worker_sweeps_when_it_starts(context, lease, left, until):
    directory = left(lease)
    hand_back(context, lease)
    with StaleRuns(context.database, context.settings.runs_dir, OLD_S) as stale:
        stale.start()
        until(lambda: not directory.exists())

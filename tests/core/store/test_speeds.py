"""The time of a job is told by runs of the same kind and project, on the same device, over like rows."""

import pytest

from core.spec.job import JobSpec
from core.spec.trainer import TrainerSpec
from core.store.leases import claim_job
from core.store.speeds import earlier_speeds
from core.store.tables import JobRow, MetricRow

BATCH = 8


@pytest.fixture
def ran(database, new_job):
    """A run of ten steps, the first of which is slow; ``speeds`` are those of the others."""

    def make(speeds, *, device="H200", tokens=800.0, **fields):
        job_id = new_job(**fields)
        with database.begin() as session:
            claim_job(session, job_id, worker="w", lease_s=60.0, device=device)
            session.get_one(JobRow, job_id).step = 1 + len(speeds)
            for step, speed in enumerate([0.001, *speeds], 1):
                told = {"tokens": tokens, "tokens_per_second": speed, "train_loss": 1.0}
                session.add_all(
                    MetricRow(job_id=job_id, step=step, name=name, value=value)
                    for name, value in told.items()
                )
        return job_id

    return make


@pytest.fixture
def found(database, project):
    def ask(device="H200", row_tokens=100.0, owner=project, **words):
        spec = JobSpec.parse({"model": "m", "training_file": "f", **words})
        with database.begin() as session:
            return earlier_speeds(session, owner, spec, device=device, row_tokens=row_tokens)

    return ask


def test_nine_in_ten_steps_lie_between_and_the_first_is_none_of_them(ran, found):
    ran([float(speed) for speed in range(10, 21)])
    speeds = found()
    assert (speeds.low, speeds.high, speeds.runs) == (11.0, 19.0, 1)


def test_several_runs_widen_the_range(ran, found):
    ran([10.0] * 9)
    ran([30.0] * 9)
    speeds = found()
    assert (speeds.low, speeds.high, speeds.runs) == (10.0, 30.0, 2)


@pytest.mark.parametrize(
    "other",
    [
        {"model": "other"},
        {"trainer": {"precision": "bfloat16"}},
        {"trainer": {"objective": {"kind": "dpo"}}},
        {"trainer": {"adapter": {"kind": "lora"}}},
        {"trainer": {"optimizer": {"kind": "adamw"}}},
        {"trainer": {"step": "two_phase"}},
        {"trainer": {"parallel": {"devices": 2}}},
    ],
    ids=str,
)
def test_a_run_of_another_kind_says_nothing(ran, found, other):
    ran([10.0] * 9)
    assert found() is not None
    assert found(**other) is None


def test_runs_on_as_many_devices_spread_alike_count(ran, found):
    spread = {"parallel": {"devices": 2, "strategy": "ddp"}}
    ran([10.0] * 9, trainer=TrainerSpec.parse(spread))
    assert found(trainer=spread).runs == 1
    assert found(trainer={"parallel": {"devices": 2, "strategy": "fsdp"}}) is None
    assert found() is None


def test_rows_of_another_length_say_nothing(ran, found):
    ran([10.0] * 9, tokens=100.0 * BATCH)
    assert found(row_tokens=51.0) is not None
    assert found(row_tokens=199.0) is not None
    assert found(row_tokens=49.0) is None
    assert found(row_tokens=201.0) is None


def test_another_device_says_nothing_nor_one_that_is_not_known(ran, found):
    ran([10.0] * 9, device="A100")
    ran([10.0] * 9, device=None)
    assert found() is None
    assert found(device="A100") is not None


def test_a_run_that_went_on_elsewhere_says_nothing(ran, found, database):
    job_id = ran([10.0] * 9)
    with database.begin() as session:
        job = session.get_one(JobRow, job_id)
        job.status, job.lease_token = "queued", None
        session.flush()
        claim_job(session, job_id, worker="w", lease_s=60.0, device="A100")
    assert found() is None


def test_another_projects_runs_are_not_told(ran, found, other_project):
    ran([10.0] * 9)
    assert found(owner=other_project) is None


def test_a_run_that_has_hardly_begun_says_nothing(ran, found):
    ran([])
    assert found() is None

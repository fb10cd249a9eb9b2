"""A job's plan over HTTP, through the real child process: by its own route, and as a dry run."""

import pytest
from openai import OpenAI

from core.store.tables import AttemptRow, JobRow, MetricRow
from core.store.workers import remove_worker, report_worker

GIB = 2**30


@pytest.fixture
def client(make_app, open_client, project):
    return open_client(make_app(), project)


@pytest.fixture
def body(training_file, chat_lines):
    """Twelve rows, two epochs of steps of four."""
    return {
        "model": "toy",
        "training_file": training_file(chat_lines(12)),
        "trainer": {"context_length": 128},
        "hyperparameters": {"n_epochs": 2, "batch_size": 4},
    }


@pytest.fixture
def worker(database):
    """Says that a worker with so many bytes is there, to the end of the test."""

    def report(size: int) -> None:
        with database.begin() as session:
            report_worker(session, "planned", version="1", device="cpu", device_bytes=size)

    yield report
    with database.begin() as session:
        remove_worker(session, "planned")


def test_a_plan_tells_memory_by_component_disk_steps_and_tokens(client, body):
    answer = client.post("/v1/trainer/plan", json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()["plan"]
    assert (plan["steps"], plan["context_length"]) == (6, 128)
    assert plan["tokens"] > 12 * 2 * 20
    assert plan["tokens_a_row"] < 128  # the longest row's, for the file was read
    for phase in plan["phases"]:
        parts = [size for name, size in phase.items() if name not in ("name", "total")]
        assert sum(parts) == phase["total"] <= plan["memory_bytes"]
    assert plan["disk"]["total"] > plan["disk"]["checkpoint"] > 0
    assert (plan["fits"], answer.json()["worker"]) == (None, None)
    assert "no worker" in answer.json()["time"]["reason"]


def test_a_dry_run_makes_no_job(client, body):
    body["trainer"]["dry_run"] = True
    answer = client.post("/v1/fine_tuning/jobs", json=body)
    assert answer.json()["object"] == "trainer.plan"
    assert client.get("/v1/fine_tuning/jobs").json()["data"] == []
    body["trainer"]["dry_run"] = False
    job = client.post("/v1/fine_tuning/jobs", json=body).json()
    assert (job["object"], "dry_run" in job["trainer"]) == ("fine_tuning.job", False)


def test_a_stock_client_can_ask_for_a_dry_run(client, body):
    openai = OpenAI(
        api_key=client.headers["authorization"].removeprefix("Bearer "),
        base_url="http://testserver/v1",
        http_client=client,
    )
    trainer = {**body.pop("trainer"), "dry_run": True}
    found = openai.fine_tuning.jobs.create(**body, extra_body={"trainer": trainer})
    assert found.plan["steps"] == 6


def test_what_does_not_fit_is_told_with_the_longest_context_and_what_to_change(
    client, body, worker
):
    worker(GIB)
    roomy = client.post("/v1/trainer/plan", json=body).json()
    assert (roomy["worker"], roomy["plan"]["fits"]) == ("planned", True)
    body["trainer"]["context_length"] = 512
    worker(roomy["plan"]["memory_bytes"] // 2)
    plan = client.post("/v1/trainer/plan", json=body).json()["plan"]
    assert plan["fits"] is False
    assert plan["longest_context"] < 512


def test_the_time_is_told_by_earlier_runs_or_why_it_is_not(client, body, worker, database):
    worker(GIB)
    time = client.post("/v1/trainer/plan", json=body).json()["time"]
    assert (time["low_s"], time["high_s"]) == (None, None)
    assert "no earlier run of this kind on cpu" in time["reason"]
    job_id = client.post("/v1/fine_tuning/jobs", json=body).json()["id"]
    with database.begin() as session:
        job = session.get_one(JobRow, job_id)
        job.status, job.step = "cancelled", 3  # as if it had run; nobody is to take it
        session.add(AttemptRow(job_id=job_id, number=1, worker="w", device="cpu", lines_followed=0))
        for step in (1, 2, 3):
            for name, value in (("tokens", 4 * 40.0), ("tokens_per_second", 100.0)):
                session.add(MetricRow(job_id=job_id, step=step, name=name, value=value))
    worker(GIB)  # said again: on a busy machine it has been silent for too long by now
    plan = client.post("/v1/trainer/plan", json=body).json()
    seconds = plan["plan"]["tokens"] / 100
    assert plan["time"] == {"low_s": seconds, "high_s": seconds, "runs": 1, "reason": None}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"training_file": "file-none"}, "file_not_found"),
        ({"model": "none"}, "model_not_found"),
        ({"trainer": {"dry_run": "often"}}, "invalid_value"),
    ],
)
def test_what_is_wrong_with_the_job_is_told_as_for_a_job(client, body, change, code):
    for path in ("/v1/trainer/plan", "/v1/fine_tuning/jobs"):
        answer = client.post(path, json={**body, **change})
        assert answer.status_code in (400, 404)
        assert answer.json()["error"]["code"] == code

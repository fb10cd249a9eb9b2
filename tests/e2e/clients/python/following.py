"""What a job tells and leaves: events, checkpoints, weights, a model. A real worker has trained it."""

import csv
import hashlib
from typing import Any

from case import Case


def order(case: Case) -> None:
    events = case.owner.fine_tuning.jobs.list_events(case.trained, limit=1000).data
    assert {event.object for event in events} == {"fine_tuning.job.event"}
    assert events[0].message == "The job has successfully completed"
    assert events[-1].message == f"Created fine-tuning job: {case.trained}"
    times = [event.created_at for event in events]
    assert times == sorted(times, reverse=True)
    steps = [_plain(event)["data"] for event in events if _plain(event)["type"] == "metrics"]
    trained = [data["step"] for data in steps if "train_loss" in data]
    assert trained == sorted(trained, reverse=True)
    assert trained


def pages(case: Case) -> None:
    jobs = case.owner.fine_tuning.jobs
    whole = [event.id for event in jobs.list_events(case.trained, limit=1000).data]
    assert [event.id for event in jobs.list_events(case.trained, limit=2)] == whole
    rest = jobs.list_events(case.trained, after=whole[0], limit=1000).data
    assert [event.id for event in rest] == whole[1:]


def checkpoints(case: Case) -> None:
    found = list(case.owner.fine_tuning.jobs.checkpoints.list(case.trained, limit=1))
    job = case.owner.fine_tuning.jobs.retrieve(case.trained)
    assert [point.step_number for point in found] == case.told["trained"]["steps"]
    for point in found:
        assert (point.object, point.fine_tuning_job_id) == (
            "fine_tuning.job.checkpoint",
            case.trained,
        )
        name = f"{job.fine_tuned_model}:ckpt-step-{point.step_number}"
        assert point.fine_tuned_model_checkpoint == name
        assert point.metrics.step == point.step_number
        assert point.metrics.full_valid_loss > 0


def download(case: Case) -> None:
    point = case.owner.fine_tuning.jobs.checkpoints.list(case.trained, limit=1).data[0]
    files = _plain(point)["files"]
    assert "weights" in {file["kind"] for file in files}
    for file in files:
        content = case.owner.files.content(file["id"]).read()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        assert len(content) == file["bytes"]


def results(case: Case) -> None:
    (file_id,) = case.owner.fine_tuning.jobs.retrieve(case.trained).result_files
    assert case.owner.files.retrieve(file_id).purpose == "fine-tune-results"
    lines = list(csv.DictReader(case.owner.files.content(file_id).text.splitlines()))
    losses = {int(line["step"]): float(line["train_loss"]) for line in lines if line["train_loss"]}
    assert list(losses) == list(range(1, case.told["trained"]["steps"][0] + 1))
    assert min(losses.values()) > 0


def slashes(case: Case) -> None:
    job = case.owner.fine_tuning.jobs.retrieve(case.trained)
    assert job.fine_tuned_model.startswith("ft:org/toy:")
    listed = [model.id for model in case.owner.models.list()]
    for name in ("org/toy", job.fine_tuned_model):
        model = case.owner.models.retrieve(name)
        assert (model.id, model.object) == (name, "model")
        assert name in listed


def _plain(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = thing.model_dump()
    return found


ITEMS = {
    "events.order": order,
    "events.pages": pages,
    "checkpoints.list": checkpoints,
    "checkpoints.download": download,
    "results.csv": results,
    "models.slashes": slashes,
}

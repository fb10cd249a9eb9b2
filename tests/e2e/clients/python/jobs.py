"""Jobs: asked for in every way, listed, and stopped from every state."""

import inspect
from typing import Any

from case import Case, refused
from openai import BadRequestError

GRADER = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.letter }}",
}
METHODS = {
    "supervised": {"hyperparameters": {"n_epochs": 2, "batch_size": "auto"}},
    "dpo": {"hyperparameters": {"n_epochs": 2, "beta": 0.2}},
    "reinforcement": {"hyperparameters": {"n_epochs": 2}, "grader": GRADER},
}


def _created(method: str, shape: str) -> Any:
    def check(case: Case) -> None:
        asked = {"type": method, method: METHODS[method]}
        job = case.create(shape, method=asked, suffix="e2e", seed=7)
        assert (job.object, job.status, job.seed) == ("fine_tuning.job", "queued", 7)
        assert (job.model, job.training_file) == ("org/toy", case.file(shape))
        assert (job.fine_tuned_model, job.finished_at, job.result_files) == (None, None, [])
        assert not job.error
        assert job.method.type == method
        assert _plain(job.method)[method]["hyperparameters"]["n_epochs"] == 2
        assert _plain(case.client.fine_tuning.jobs.retrieve(job.id))["id"] == job.id

    return check


def deprecated_hyperparameters(case: Case) -> None:
    job = case.create(hyperparameters={"n_epochs": 3, "batch_size": 2})
    assert (job.hyperparameters.n_epochs, job.hyperparameters.batch_size) == (3, 2)


def extra_body(case: Case) -> None:
    asked = {"context_length": 64, "optimizer": {"kind": "apollo_mini"}}
    trainer = _plain(case.create(extra_body={"trainer": asked}))["trainer"]
    assert trainer["context_length"] == 64
    assert trainer["optimizer"]["kind"] == "apollo_mini"


def unknown_key(case: Case) -> None:
    wrong = {"trainer": {"optimizer": {"kind": "apollo", "rnk": 4}}}
    error = refused(BadRequestError, lambda: case.create(extra_body=wrong))
    assert error.param == "trainer.optimizer.rnk"
    assert "rank" in error.body["message"]


def pages_by_metadata(case: Case) -> None:
    jobs = [case.create(**_tagged(case, {"shelf": "a", "number": str(n)})) for n in range(3)]
    case.create(**_tagged(case, {"shelf": "b"}))
    found = list(case.client.fine_tuning.jobs.list(limit=1, **_filter(case, {"shelf": "a"})))
    assert [job.id for job in found] == [job.id for job in jobs[::-1]]
    assert _plain(found[0])["metadata"] == {"shelf": "a", "number": "2"}
    newest = case.client.fine_tuning.jobs.list(limit=1)
    assert (len(newest.data), newest.has_more) == (1, True)


def _wished(wish: str) -> Any:
    def check(case: Case) -> None:
        for told in case.told["wishes"]:
            if told["wish"] == wish:
                _ask(case, wish, told)

    return check


def _ask(case: Case, wish: str, told: dict[str, Any]) -> None:
    def call() -> Any:
        return getattr(case.client.fine_tuning.jobs, wish)(told["job"])

    if told["then"] == "refused":
        error = refused(BadRequestError, call)
        assert (error.code, told["from"] in str(error)) == ("invalid_job_state", True), error
        return
    for _ in range(2):  # asked again, nothing changes
        job = call()
        assert job.status == told["then"], f"from {told['from']}: {job.status}"
    assert case.client.fine_tuning.jobs.retrieve(told["job"]).status == told["then"]


def _tagged(case: Case, tags: dict[str, str]) -> dict[str, Any]:
    known = "metadata" in inspect.signature(case.client.fine_tuning.jobs.create).parameters
    return {"metadata": tags} if known else {"extra_body": {"metadata": tags}}


def _filter(case: Case, tags: dict[str, str]) -> dict[str, Any]:
    """As a version has it that knows no metadata: in the query."""
    if "metadata" in inspect.signature(case.client.fine_tuning.jobs.list).parameters:
        return {"metadata": tags}
    return {"extra_query": {f"metadata[{name}]": value for name, value in tags.items()}}


def _plain(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = thing.model_dump()
    return found


ITEMS = {
    "create.supervised": _created("supervised", "chat"),
    "create.dpo": _created("dpo", "pairs"),
    "create.reinforcement": _created("reinforcement", "prompts"),
    "create.hyperparameters": deprecated_hyperparameters,
    "create.extra_body": extra_body,
    "create.unknown_key": unknown_key,
    "list.pages_by_metadata": pages_by_metadata,
    "jobs.cancel": _wished("cancel"),
    "jobs.pause": _wished("pause"),
    "jobs.resume": _wished("resume"),
}

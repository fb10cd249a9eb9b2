"""What a spec is in OpenAI's words: a job's `method`, with every number as it was resolved.

What those words cannot say (a `beta` above 2, a group of 100) is left out here and stands in `trainer`; so
`method` and `trainer` of a job never contradict each other but for the two ways to give a learning rate.
"""

from typing import Any

from api.agreement import METHOD_OF_KIND
from api.method import LARGEST_BETA, LARGEST_MULTIPLIER, USUAL_GROUP
from core.spec.job import JobSpec
from core.spec.objective import DpoSpec, GrpoSpec


def method_of(spec: JobSpec) -> dict[str, Any]:
    """The `method` that asks, beside its `trainer`, for ``spec``."""
    kind = METHOD_OF_KIND[spec.trainer.objective.kind]
    return {"type": kind, kind: _settings(spec)}


def _settings(spec: JobSpec) -> dict[str, Any]:
    numbers: dict[str, Any] = spec.hyperparameters.model_dump()
    objective = spec.trainer.objective
    if isinstance(objective, DpoSpec) and objective.beta <= LARGEST_BETA:
        numbers["beta"] = objective.beta
    if not isinstance(objective, GrpoSpec):
        return {"hyperparameters": numbers}
    if objective.group_size <= LARGEST_MULTIPLIER * USUAL_GROUP:
        numbers["compute_multiplier"] = objective.group_size / USUAL_GROUP
    numbers |= {
        "eval_interval": spec.trainer.evaluation.every or "auto",
        "eval_samples": objective.eval_samples,
        "reasoning_effort": "default",
    }
    settings = {
        "grader": objective.grader.model_dump(mode="json"),
        "hyperparameters": numbers,
    }
    if objective.json_output:
        settings["response_format"] = {"type": "json_object"}
    return settings

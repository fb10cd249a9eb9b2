"""A job's plan for another process: `python -m core.train.plan`, for the API, which imports no torch.

stdin: one line of JSON, `PlanOrder`. stdout: JSON, ``{"plan": {...}}``, a `JobPlan`, or ``{"error": {"code",
"message", "param"}}``. The exit code is 0 for both; anything else is a fault of this program. Only the
model's configuration is read, and no GPU is needed.
"""

import json
import sys
from typing import Any, Literal

from transformers.utils import logging

from core.models.load import load_config
from core.spec.errors import RunFailure
from core.spec.job import JobSpec
from core.spec.plan import DataFacts
from core.spec.tree import Spec, SpecError
from core.streambp import StreamError
from core.train.forecast import job_plan
from core.train.inputs import model_facts
from core.train.planning import Planning


class PlanOrder(Spec):
    """``model``: a folder, whatever ``spec`` calls it. ``budget_bytes`` None: nothing to fit into."""

    spec: JobSpec
    model: str
    device: Literal["cuda", "cpu"] = "cuda"
    budget_bytes: int | None = None
    data: DataFacts | None = None
    input_bytes: int = 0


def answer(order: PlanOrder) -> dict[str, Any]:
    """The plan, or the user's fault."""
    try:
        spec = order.spec.resolved(model_facts(order.model, order.spec.model))
        plan = job_plan(
            Planning.of(spec, load_config(order.model), order.device),
            budget_bytes=order.budget_bytes,
            data=order.data,
            input_bytes=order.input_bytes,
        )
    except SpecError as error:
        problem = error.problems[0]
        return _error(problem.code, problem.message, problem.path)
    except RunFailure as failure:
        return _error(failure.error.code, failure.error.message, failure.error.param)
    except StreamError as error:
        return _error("no_plan", str(error), "model")
    return {"plan": plan.model_dump()}


def _error(code: str, message: str, param: str | None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "param": param}}


def main() -> None:
    """Answer one order."""
    logging.set_verbosity_error()
    order = PlanOrder.parse(json.loads(sys.stdin.buffer.readline()))
    json.dump(answer(order), sys.stdout)


if __name__ == "__main__":
    main()

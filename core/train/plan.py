"""A job's plan for another process: `python -m core.train.plan`, for the API, which imports no torch.

stdin: one line of JSON, `PlanOrder`, then the training file's bytes if there are any.
stdout: JSON, ``{"plan": {...}}``, a `JobPlan`, or ``{"error": {"code",
"message", "param"}}``. The exit code is 0 for both; anything else is a fault of this program. No weights are
read, and no GPU is needed.
"""

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from transformers.utils import logging

from core.models.load import load_config, load_tokenizer
from core.spec.errors import RunFailure
from core.spec.job import JobSpec
from core.spec.plan import DataFacts
from core.spec.run import INPUTS_FOLDER
from core.spec.tree import Spec, SpecError
from core.streambp import StreamError
from core.train.forecast import job_plan, rows_known
from core.train.inputs import model_facts
from core.train.planning import Planning

ROWS_NAME = "rows"


class PlanOrder(Spec):
    """``model``: a folder, whatever ``spec`` calls it. ``budget_bytes`` None: nothing to fit into."""

    spec: JobSpec
    model: str
    device: Literal["cuda", "cpu"] = "cuda"
    budget_bytes: int | None = None
    data: DataFacts | None = None
    input_bytes: int = 0


def answer(order: PlanOrder, beside: Path | None = None) -> dict[str, Any]:
    """The plan, or the user's fault; ``beside``: a folder that holds the training file."""
    try:
        spec = order.spec.resolved(model_facts(order.model, order.spec.model))
        planning = Planning.of(spec, load_config(order.model), order.device)
        data, lengths = order.data, None
        if beside is not None:
            tokenizer = load_tokenizer(order.model, spec.trainer.chat_template)
            data, lengths = rows_known(planning, beside, tokenizer)
        plan = job_plan(
            planning,
            budget_bytes=order.budget_bytes,
            data=data,
            lengths=lengths,
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
    with TemporaryDirectory(prefix="castalia-plan-") as folder:
        if not _laid_out(Path(folder)):
            json.dump(answer(order), sys.stdout)
            return
        # Whatever the spec calls the file, a path among it, is no name to write to.
        spec = order.spec.model_copy(update={"training_file": ROWS_NAME})
        json.dump(answer(order.model_copy(update={"spec": spec}), Path(folder)), sys.stdout)


def _laid_out(folder: Path) -> bool:
    """Lay the file that follows the order out as a run has it; tell whether one follows."""
    path = folder / INPUTS_FOLDER / ROWS_NAME
    path.parent.mkdir()
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path.stat().st_size > 0


if __name__ == "__main__":
    main()

"""The longest contexts of several models: `python -m core.train.limits`, for a worker without torch.

stdin: one line of JSON, `LimitsOrder`. stdout: ``{NAME: [ModelLimit, …]}`` as JSON; a model that cannot be
planned is left out. No weights are read; a model takes seconds of one core, which goes to others first.
"""

import json
import os
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, Final, Literal, get_args

from transformers import PreTrainedConfig
from transformers.utils import logging

from core.models.catalog import ModelUnusable
from core.models.load import load_config
from core.spec.errors import RunFailure
from core.spec.job import JobSpec
from core.spec.limits import ModelLimit
from core.spec.model import ModelFacts
from core.spec.trainer import LONGEST_CONTEXT, Precision
from core.spec.tree import Spec, SpecError
from core.streambp import StreamError
from core.streambp.plan import BudgetError
from core.train.inputs import model_facts
from core.train.planning import Planning

Method = Literal["supervised", "dpo", "reinforcement"]
_GRADER = {
    "type": "string_check",
    "name": "any",
    "input": "{{ sample.output_text }}",
    "reference": "",
    "operation": "eq",
}
OBJECTIVES: Final[dict[Method, dict[str, Any]]] = {
    "supervised": {"kind": "sft"},
    "dpo": {"kind": "dpo"},
    "reinforcement": {"kind": "grpo", "grader": _GRADER},
}
KINDNESS: Final = 19


class LimitsOrder(Spec):
    """``models``: folders by name; ``budget_bytes``: memory that a trainer can have on the ``device``."""

    models: dict[str, str]
    device: Literal["cuda", "cpu"]
    budget_bytes: int


def limits(order: LimitsOrder) -> dict[str, list[ModelLimit]]:
    """What can be trained of each model that can be planned."""
    found = {}
    for name, folder in order.models.items():
        try:
            facts, config = model_facts(folder, name), load_config(folder)
            found[name] = list(_of_model(order, facts, config))
        except (ModelUnusable, OSError, RunFailure, StreamError) as error:
            sys.stderr.write(f"no limits of {name}: {error}\n")
    return found


def _of_model(
    order: LimitsOrder, facts: ModelFacts, config: PreTrainedConfig
) -> Iterator[ModelLimit]:
    adapters: tuple[Literal["none", "lora"], ...] = ("none", "lora")
    precisions: tuple[Precision, ...] = get_args(Precision)
    for method, precision, adapter in product(OBJECTIVES, precisions, adapters):
        trainer = {
            "objective": OBJECTIVES[method],
            "precision": precision,
            "adapter": {"kind": adapter},
        }
        document = {"model": facts.name, "training_file": "rows", "trainer": trainer}
        try:
            spec = JobSpec.parse(document).resolved(facts)
            longest = Planning.of(spec, config, order.device).longest(order.budget_bytes)
        except BudgetError:
            longest = 0
        except (SpecError, RunFailure):
            continue  # this model has no such job
        yield ModelLimit(
            method=method,
            precision=precision,
            adapter=adapter,
            longest_context=min(longest, facts.longest_context or LONGEST_CONTEXT),
        )


def main() -> None:
    """Answer one order."""
    os.nice(KINDNESS)
    logging.set_verbosity_error()
    found = limits(LimitsOrder.parse(json.loads(sys.stdin.readline())))
    shown = {name: [one.model_dump() for one in of_model] for name, of_model in found.items()}
    json.dump(shown, sys.stdout)


if __name__ == "__main__":
    main()

"""Of each model that can be planned the longest contexts are told: more memory, longer contexts."""

import json
import subprocess
import sys

import pytest

from core.spec.job import JobSpec
from core.train.inputs import model_facts
from core.train.limits import LimitsOrder, limits

GIB = 2**30


@pytest.fixture(scope="module")
def told(toy_model):
    def tell(budget):
        order = LimitsOrder(models={"toy": str(toy_model)}, device="cpu", budget_bytes=budget)
        return {
            (one.method, one.precision, one.adapter): one.longest_context
            for one in limits(order)["toy"]
        }

    return tell


def test_every_method_precision_and_adapter_has_a_number_within_the_model_s_own_context(told):
    found = told(2 * GIB)
    assert len(found) == 3 * 3 * 2
    assert set(found.values()) == {512}


def test_where_nothing_fits_it_is_zero(told):
    assert set(told(1000).values()) == {0}


def test_a_context_is_told_up_to_which_a_job_fits_and_no_further(told, toy_model):
    from core.models.load import load_config
    from core.streambp.plan import BudgetError
    from core.train.planning import Planning

    document = {"model": "toy", "training_file": "rows", "trainer": {"precision": "float32"}}
    spec = JobSpec.parse(document).resolved(model_facts(str(toy_model), "toy"))
    planning = Planning.of(spec, load_config(str(toy_model)), "cpu")
    budget = next(b for b in range(10**6, 10**9, 10**5) if _longest(planning, b, BudgetError) > 9)
    assert told(budget)["supervised", "float32", "none"] == planning.longest(budget)


def test_the_program_leaves_out_a_model_that_it_cannot_plan_and_says_why(toy_model, tmp_path):
    models = {"toy": str(toy_model), "broken": str(tmp_path)}
    order = {"models": models, "device": "cuda", "budget_bytes": GIB}
    ended = subprocess.run(
        [sys.executable, "-m", "core.train.limits"],
        input=json.dumps(order),
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(ended.stdout)
    assert list(found) == ["toy"]
    assert "no limits of broken" in ended.stderr


def _longest(planning, budget, error):
    try:
        return planning.longest(budget)
    except error:
        return 0

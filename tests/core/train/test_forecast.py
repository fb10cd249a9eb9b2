"""A JobPlan says what a job will need: the phases of its objective, what would help, disk, steps."""

import json
import subprocess
import sys

import pytest

from core.models.load import load_config, load_tokenizer
from core.spec.plan import DataFacts, JobPlan
from core.train.forecast import bytes_of_inputs, job_plan, rows_known
from core.train.inputs import model_facts
from core.train.planning import Planning

GRADER = {
    "type": "string_check", "name": "r", "operation": "eq", "input": "{{ sample.output_text }}",
    "reference": "a",
}  # fmt: skip
GRPO = {"kind": "grpo", "max_completion_tokens": 16, "group_size": 4, "grader": GRADER}
LORA = {"kind": "lora", "rank": 2}
DATA = DataFacts(rows=7, tokens=200, longest=40)


@pytest.fixture
def planning(make_spec, toy_model):
    """`planning(trainer words)`: on the toy model."""

    def make(objective=None, **trainer):
        words = {"objective": objective or {"kind": "sft"}, **trainer}
        spec = make_spec(trainer=words).resolved(model_facts(str(toy_model), "toy"))
        return Planning.of(spec, load_config(toy_model), "cpu")

    return make


def names(plan):
    return [phase.name for phase in plan.phases]


def test_each_objective_has_the_phases_of_what_it_does(planning):
    step = ["head", "layers", "step"]
    found = {
        kind: names(job_plan(planning(words)))
        for kind, words in {
            "sft": {"kind": "sft"},
            "dpo": {"kind": "dpo"},
            "grpo": GRPO,
            "kl": GRPO | {"kl_weight": 0.1},
        }.items()
    }
    assert found == {
        "sft": step,
        "dpo": [*step, "scoring"],
        "grpo": [*step, "sampling"],
        "kl": [*step, "scoring", "sampling"],
    }


def test_a_divergence_holds_a_second_model_and_beside_an_adapter_none(planning):
    def weights(**words):
        return job_plan(planning(GRPO | words.pop("objective", {}), **words)).phases[0].weights

    kl = {"objective": {"kl_weight": 0.1}}
    assert weights(**kl) == 2 * weights()
    assert weights(**kl, adapter=LORA) == weights(adapter=LORA)


def test_the_longest_context_fits_and_one_token_more_does_not(planning):
    budget = job_plan(planning(GRPO, context_length=256)).memory_bytes
    longest = job_plan(planning(GRPO), budget_bytes=budget).longest_context
    assert longest >= 256
    for context, fits in ((longest, True), (longest + 1, False)):
        assert job_plan(planning(GRPO).at(context), budget_bytes=budget).fits is fits


def test_what_does_not_fit_is_told_a_change_with_which_it_fits(planning):
    budget = job_plan(planning(context_length=64)).memory_bytes
    wide = {"context_length": 64, "tokens_per_pass": 512, "step": "two_phase"}
    told = job_plan(planning(**wide), budget_bytes=budget)
    assert (told.fits, told.advice.field) == (False, "trainer.tokens_per_pass")
    wide["tokens_per_pass"] = told.advice.value
    assert job_plan(planning(**wide), budget_bytes=budget).fits
    long = job_plan(planning(context_length=512, stream={"store": "disk"}), budget_bytes=budget)
    assert long.advice.field == "trainer.context_length"
    assert job_plan(planning().at(long.advice.value), budget_bytes=budget).fits
    none = job_plan(planning(), budget_bytes=1000)
    assert (none.fits, none.longest_context, none.advice) == (False, 0, None)


def test_disk_is_checkpoints_with_one_being_written_and_the_inputs(planning):
    plan = job_plan(planning(), input_bytes=11)
    disk = plan.disk
    assert disk.checkpoints == 4 * disk.checkpoint
    assert disk.total == disk.checkpoints + 11
    best = job_plan(planning(checkpoint={"keep_last": 1}))
    assert best.disk.checkpoints == 2 * best.disk.checkpoint


@pytest.mark.parametrize("words", [{}, {"precision": "int8"}, {"adapter": LORA | {"merge": True}}])
def test_a_checkpoint_takes_what_is_planned(words, planning, train, make_spec):
    folder = train(make_spec(trainer={**words, "max_steps": 1})).checkpoint
    kinds = (".safetensors", ".pt")
    real = sum(path.stat().st_size for path in folder.rglob("*") if path.suffix in kinds)
    planned = job_plan(planning(**words)).disk.checkpoint
    assert 0 <= real - planned < 2**15  # headers


def test_steps_and_tokens_are_those_of_the_run(planning, train, make_spec, tmp_path, toy_model):
    spec = make_spec()
    run = train(spec)
    there = planning()
    data, lengths = rows_known(there, tmp_path, load_tokenizer(toy_model))
    plan = job_plan(
        there, data=data, lengths=lengths, input_bytes=bytes_of_inputs(there.spec, tmp_path)
    )
    assert plan.steps == len(run.steps)
    assert plan.tokens == 2 * data.tokens
    assert data.rows == len(lengths) == 7
    assert plan.disk.inputs == (tmp_path / "train.jsonl").stat().st_size


def test_another_process_answers_an_order_with_a_plan_or_the_fault(make_spec, toy_model):
    def ask(spec):
        order = {
            "spec": spec.model_dump(mode="json"), "model": str(toy_model), "device": "cpu",
            "budget_bytes": 2**30, "data": DATA.model_dump(),
        }  # fmt: skip
        command = [sys.executable, "-P", "-m", "core.train.plan"]
        done = subprocess.run(
            command, input=json.dumps(order) + "\n", capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    plan = JobPlan.model_validate_json(json.dumps(ask(make_spec())["plan"]))
    assert (plan.fits, plan.steps) == (True, 8)
    wrong = ask(make_spec(trainer={"context_length": 10**6}))["error"]
    assert (wrong["code"], wrong["param"]) == ("context_length_exceeded", "trainer.context_length")

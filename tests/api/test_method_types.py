"""Jobs of every method through the stock client: what is asked for, what becomes of it, what is echoed."""

import pytest
from openai import OpenAI

GRADER = {
    "type": "string_check",
    "name": "exact",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
    "operation": "eq",
}


@pytest.fixture
def create(openai, client, body):
    """Creates a job; lenient as users are, since `hyperparameters` is null here as OpenAI's is."""
    lenient = OpenAI(
        api_key=openai.api_key, base_url=openai.base_url, http_client=client, max_retries=0
    )

    def do(method, trainer=None):
        extra = {} if trainer is None else {"extra_body": {"trainer": trainer}}
        return lenient.fine_tuning.jobs.create(**body, method=method, **extra)

    return do


def reinforcement(response_format=None, **numbers):
    settings = {"grader": GRADER, "hyperparameters": numbers}
    if response_format is not None:
        settings["response_format"] = response_format
    return {"type": "reinforcement", "reinforcement": settings}


def dpo(**numbers):
    return {"type": "dpo", "dpo": {"hyperparameters": numbers}}


def test_dpo_takes_openais_numbers_and_echoes_them(create):
    job = create(dpo(beta=0.5, n_epochs=2, batch_size="auto"))
    assert (job.trainer["objective"]["kind"], job.trainer["objective"]["beta"]) == ("dpo", 0.5)
    assert job.method.type == "dpo"
    numbers = job.method.dpo.hyperparameters
    assert (numbers.beta, numbers.n_epochs, numbers.batch_size) == (0.5, 2, 8)
    assert (job.hyperparameters, job.method.supervised) == (None, None)


@pytest.mark.parametrize("method", [{"type": "dpo"}, {"type": "dpo", "dpo": {}}, dpo(beta="auto")])
def test_auto_and_silence_are_the_recipe_of_dpo(create, method):
    job = create(method)
    assert job.method.dpo.hyperparameters.beta == 0.1
    assert job.trainer["learning_rate"] == pytest.approx(5e-6)


def test_reinforcement_takes_openais_numbers_and_echoes_them(create):
    job = create(
        reinforcement(
            {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
            compute_multiplier=0.5,
            eval_interval=5,
            eval_samples=3,
            reasoning_effort="default",
            batch_size=4,
        )
    )
    objective = job.trainer["objective"]
    assert (objective["kind"], objective["grader"]) == ("grpo", GRADER)
    assert (objective["group_size"], objective["eval_samples"]) == (4, 3)
    assert (objective["json_output"], job.trainer["evaluation"]["every"]) == (True, 5)
    settings = job.method.reinforcement
    assert settings.grader.reference == "{{ item.answer }}"
    numbers = settings.hyperparameters
    assert (numbers.compute_multiplier, numbers.eval_interval, numbers.eval_samples) == (0.5, 5, 3)
    assert (numbers.batch_size, numbers.reasoning_effort) == (4, "default")
    assert job.hyperparameters is None


@pytest.mark.parametrize(
    ("multiplier", "size"), [("auto", 8), (2e-5, 2), (0.4, 3), (1, 8), (10.0, 80)]
)
def test_a_compute_multiplier_scales_the_group(create, multiplier, size):
    job = create(reinforcement(compute_multiplier=multiplier))
    assert job.trainer["objective"]["group_size"] == size


@pytest.mark.parametrize(("form", "parsed"), [("text", False), ("json_object", True)])
def test_an_answer_is_parsed_where_json_is_asked_for(create, form, parsed):
    job = create(reinforcement({"type": form}))
    assert job.trainer["objective"]["json_output"] is parsed


def test_further_words_of_the_objective_go_beside_the_method(create):
    job = create(dpo(beta=0.5), {"objective": {"kind": "dpo", "loss": "ipo"}})
    assert (job.trainer["objective"]["loss"], job.trainer["objective"]["beta"]) == ("ipo", 0.5)
    job = create(reinforcement(), {"objective": {"temperature": 0.7}, "evaluation": {}})
    assert job.trainer["objective"]["temperature"] == 0.7
    assert job.trainer["objective"]["grader"] == GRADER


def test_a_grader_may_stand_in_trainer_alone(create):
    objective = {"kind": "grpo", "grader": GRADER}
    for method in ({"type": "reinforcement"}, None):
        job = create(method, {"objective": objective})
        assert job.method.reinforcement.grader.operation == "eq"


@pytest.mark.parametrize("method", [None, {"type": "supervised"}])
def test_pretraining_is_supervised_in_openais_words(create, method):
    job = create(method, {"objective": {"kind": "pretrain"}})
    assert (job.method.type, job.trainer["objective"]) == ("supervised", {"kind": "pretrain"})


@pytest.mark.parametrize(
    ("method", "trainer"),
    [
        (dpo(beta=2), {"objective": {"loss": "hinge"}}),
        ({"type": "dpo"}, {"objective": {"beta": 50.0}}),
        (reinforcement(eval_interval=3), {"objective": {"clip_high": 0.3}}),
        (reinforcement(), {"objective": {"group_size": 256}}),
    ],
)
def test_method_and_trainer_that_are_echoed_can_be_sent_again(create, method, trainer):
    first = create(method, trainer)
    echoed = first.method.to_dict()
    again = create(echoed, {k: v for k, v in first.trainer.items() if k != "learning_rate"})
    assert (again.trainer, again.method) == (first.trainer, first.method)

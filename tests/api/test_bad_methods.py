"""Every wrong word of a method is refused where it stands, and no job is kept."""

import pytest
from sqlalchemy import func, select

from core.graders.sandbox import sandbox_available
from core.store.tables import JobRow

GRADER = {"type": "string_check", "input": "a", "reference": "b", "operation": "eq"}
RFT = "method.reinforcement"


@pytest.fixture
def refused(client, body, database, project):
    """The error of a body with this method and trainer."""

    def post(method, trainer=None):
        sent = {**body, "method": method}
        if trainer is not None:
            sent["trainer"] = trainer
        answer = client.post("/v1/fine_tuning/jobs", json=sent)
        assert answer.status_code == 400, answer.text
        query = select(func.count()).where(JobRow.project_id == project)
        with database.begin() as session:
            assert session.scalar(query) == 0
        return answer.json()["error"]

    return post


def dpo(**numbers):
    return {"type": "dpo", "dpo": {"hyperparameters": numbers}}


def reinforcement(grader=GRADER, response_format=None, **numbers):
    settings = {"grader": grader, "hyperparameters": numbers}
    if response_format is not None:
        settings["response_format"] = response_format
    return {"type": "reinforcement", "reinforcement": settings}


@pytest.mark.parametrize(
    ("method", "param"),
    [
        *((dpo(beta=beta), "dpo.hyperparameters.beta") for beta in (0, -1, 2.1, True, "x", None)),
        (dpo(n_epochs=0), "dpo.hyperparameters.n_epochs"),
        (dpo(gamma=1), "dpo.hyperparameters.gamma"),
        ({"type": "dpo", "dpo": {"grader": GRADER}}, "dpo.grader"),
        *(
            (reinforcement(**{name: value}), f"reinforcement.hyperparameters.{name}")
            for name, value in (
                ("compute_multiplier", 1e-5),
                ("compute_multiplier", 11),
                ("eval_interval", 0),
                ("eval_interval", 1.5),
                ("eval_samples", 0),
                ("eval_samples", 65),
                ("batch_size", 257),
                ("reasoning_effort", "high"),
                ("reasoning_effort", "extreme"),
                ("beta", 0.1),
            )
        ),
        (reinforcement({**GRADER, "operation": "is"}), "reinforcement.grader.operation"),
        (reinforcement({"type": "string_check"}), "reinforcement.grader.input"),
        (reinforcement({**GRADER, "colour": 1}), "reinforcement.grader.colour"),
        (reinforcement(None), "reinforcement.grader"),
        (reinforcement(response_format={"type": "xml"}), "reinforcement.response_format.type"),
        (
            reinforcement(response_format={"type": "text", "json_schema": {}}),
            "reinforcement.response_format",
        ),
        ({"type": "reinforcement"}, "reinforcement"),
        ({"type": "reinforcement", "reinforcement": {}}, "reinforcement.grader"),
        ({"type": "dpo", "supervised": {}}, "supervised"),
    ],
)
@pytest.mark.parametrize("trainer", [None, {"objective": {}}])
def test_a_wrong_word_is_refused_where_it_stands(refused, method, param, trainer):
    assert refused(method, trainer)["param"] == f"method.{param}"


def test_an_effort_that_no_model_has_is_refused_with_the_reason(refused):
    message = refused(reinforcement(reasoning_effort="low"))["message"]
    assert "only 'default'" in message
    assert "no levels of effort" in message


@pytest.mark.parametrize(
    ("method", "objective", "remedy"),
    [
        (dpo(), {"kind": "sft"}, "'supervised'"),
        (dpo(), {"kind": "grpo", "grader": GRADER}, "'reinforcement'"),
        (reinforcement(), {"kind": "dpo"}, "'dpo'"),
        ({"type": "supervised"}, {"kind": "dpo"}, "'dpo'"),
        (dpo(), {"kind": "pretrain"}, "'supervised'"),
    ],
)
def test_two_objectives_are_refused_under_both_names(refused, method, objective, remedy):
    error = refused(method, {"objective": objective})
    assert error["param"] == "trainer.objective.kind"
    assert f"method.type is '{method['type']}'" in error["message"]
    assert f"method.type to {remedy}" in error["message"]


@pytest.mark.parametrize(
    ("method", "trainer", "param", "source"),
    [
        (dpo(beta=0.1), {"objective": {"beta": 0.2}}, "objective.beta", "hyperparameters.beta"),
        (
            reinforcement(compute_multiplier=1.0),
            {"objective": {"group_size": 4}},
            "objective.group_size",
            "hyperparameters.compute_multiplier",
        ),
        (
            reinforcement(),
            {"objective": {"grader": {**GRADER, "operation": "ne"}}},
            "objective.grader",
            f"{RFT}.grader",
        ),
        (
            reinforcement(eval_interval=2),
            {"evaluation": {"every": 3}},
            "evaluation.every",
            "hyperparameters.eval_interval",
        ),
        (
            reinforcement(response_format={"type": "json_object"}),
            {"objective": {"json_output": False}},
            "objective.json_output",
            f"{RFT}.response_format",
        ),
    ],
)
def test_a_word_that_is_given_twice_must_be_the_same(refused, method, trainer, param, source):
    error = refused(method, trainer)
    assert error["param"] == f"trainer.{param}"
    assert source in error["message"]
    assert "give one of them" in error["message"]


@pytest.mark.parametrize(
    ("trainer", "param"),
    [
        ({"objective": {"loss": "apo"}}, "trainer.objective.loss"),
        ({"objective": {"lossy": 1}}, "trainer.objective.lossy"),
        ({"objective": {"kind": "dpo", "target_margin": -1}}, "trainer.objective.target_margin"),
        ({"objective": None}, "trainer.objective"),
        ({"packing": True}, "trainer.packing"),
        ({"on_overlength": "split"}, "trainer.on_overlength"),
    ],
)
def test_a_wrong_word_beside_the_method_is_refused_as_it_was_typed(refused, trainer, param):
    assert refused(dpo(), trainer)["param"] == param


def test_an_objective_that_needs_a_grader_says_so_where_it_stands(refused):
    error = refused(None, {"objective": {"kind": "grpo"}})
    assert (error["param"], error["code"]) == (
        "trainer.objective.grader",
        "missing_required_parameter",
    )


def test_a_wrong_method_and_a_wrong_trainer_are_both_told(refused):
    error = refused(dpo(beta=-1), {"objective": {"loss": "apo"}, "context_length": -1})
    assert [detail["param"] for detail in error["details"]][0::2] == [
        "method.dpo.hyperparameters.beta",
        "trainer.context_length",
    ]


@pytest.fixture
def _no_sandbox(monkeypatch, tmp_path):
    """A host on which bubblewrap is not installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox_available.cache_clear()
    yield
    sandbox_available.cache_clear()


PYTHON = {"type": "python", "source": "def grade(sample, item):\n    return 1.0\n"}
SUM = {"type": "multi", "graders": {"a": GRADER, "b": PYTHON}, "calculate_output": "a + b"}


@pytest.mark.usefixtures("_no_sandbox")
@pytest.mark.parametrize(("grader", "place"), [(PYTHON, ""), (SUM, ".graders.b")])
def test_source_that_cannot_be_confined_here_is_refused_with_the_remedy(refused, grader, place):
    error = refused(reinforcement(grader))
    assert (error["param"], error["code"]) == (f"{RFT}.grader{place}", "grader_invalid")
    assert "install bubblewrap" in error["message"]
    error = refused(None, {"objective": {"kind": "grpo", "grader": grader}})
    assert error["param"] == f"trainer.objective.grader{place}"

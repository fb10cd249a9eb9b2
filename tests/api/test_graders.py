"""Graders through the stock client: tried on an answer before a job rests on them."""

import shutil

import pytest
from openai import BadRequestError

EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
CLOSE = {
    "type": "text_similarity",
    "name": "close",
    "evaluation_metric": "fuzzy_match",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
BOTH = {
    "type": "multi",
    "name": "both",
    "graders": {"exact": EXACT, "close": CLOSE},
    "calculate_output": "0.5 * exact + 0.5 * close",
}
ITEM = {"answer": "Paris"}
sandboxed = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


@pytest.fixture
def graders(openai):
    return openai.fine_tuning.alpha.graders


@pytest.mark.parametrize(
    ("grader", "answer", "reward"),
    [(EXACT, "Paris", 1.0), (EXACT, "paris", 0.0), (CLOSE, "Paris", 1.0), (BOTH, "Paris", 1.0)],
)
def test_an_answer_is_graded_as_in_training(graders, grader, answer, reward):
    found = graders.run(grader=grader, model_sample=answer, item=ITEM)
    assert found.reward == reward
    assert (found.metadata.name, found.metadata.type) == (grader["name"], grader["type"])
    assert found.metadata.errors.other_error is False
    assert found.metadata.execution_time >= 0


def test_a_multi_grader_tells_its_parts(graders):
    found = graders.run(grader=BOTH, model_sample="Paris!", item=ITEM)
    assert found.sub_rewards["exact"] == 0.0
    assert 0.0 < found.sub_rewards["close"] < 1.0
    assert found.reward == pytest.approx(0.5 * found.sub_rewards["close"])


@pytest.mark.parametrize(
    ("grader", "answer", "item", "flag"),
    [
        (EXACT, "x", {}, "invalid_variable_error"),
        ({**BOTH, "calculate_output": "exact / 0"}, "x", ITEM, "formula_parse_error"),
    ],
)
def test_what_goes_wrong_is_a_flag_and_worth_nothing(graders, grader, answer, item, flag):
    found = graders.run(grader=grader, model_sample=answer, item=item)
    assert found.reward == 0.0
    assert [name for name, is_set in found.metadata.errors if is_set is True] == [flag]


@sandboxed
def test_a_python_grader_that_raises_is_a_flag(graders):
    source = "def grade(sample, item):\n    return 1 / 0\n"
    python = {"type": "python", "name": "p", "source": source}
    errors = graders.run(grader=python, model_sample="x", item={}).metadata.errors
    assert errors.python_grader_runtime_error is True
    assert "ZeroDivisionError" in errors.python_grader_runtime_error_details


@pytest.mark.parametrize("grader", [EXACT, CLOSE, BOTH])
def test_a_grader_that_can_be_used_comes_back(openai, graders, grader):
    # The client's type of a multi grader has room for one part, where OpenAI's guide has an object.
    openai._strict_response_validation = grader is not BOTH
    assert graders.validate(grader=grader).grader.name == grader["name"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"operation": "about"}, "grader.operation"),
        ({"input": "{{ row.x }}"}, "grader.input"),
        ({"type": "score_model"}, "grader"),
        ({"weight": 1}, "grader.weight"),
    ],
)
def test_a_grader_that_cannot_be_used_is_refused_by_its_field(graders, change, param):
    for use in (graders.validate, lambda grader: graders.run(grader=grader, model_sample="x")):
        with pytest.raises(BadRequestError) as refused:
            use(grader={**EXACT, **change})
        assert refused.value.param.startswith(param)
        assert refused.value.code


def test_a_key_is_needed(app, open_client, project):
    client = open_client(app, project)
    del client.headers["authorization"]
    path = "/v1/fine_tuning/alpha/graders/validate"
    assert client.post(path, json={"grader": EXACT}).status_code == 401

"""At submission, a grader that could not grade here is refused with the field at fault."""

import pytest

from core.graders.check import refusals
from core.graders.sandbox import sandbox_available
from core.spec.grader import parse_grader

TASK = {"type": "reasoning_gym", "dataset": "leg_counting"}
ALIKE = {"type": "text_similarity", "input": "a", "reference": "b", "evaluation_metric": "rouge_1"}


def said(document):
    return [(p.path, p.message) for p in refusals(parse_grader(document), "grader")]


def python(source):
    return {"type": "python", "source": source}


def test_what_can_grade_is_not_refused():
    assert said({"type": "multi", "graders": [TASK, ALIKE], "calculate_output": "1"}) == []


def test_a_task_that_is_not_there_is_refused_by_its_name():
    document = {"type": "multi", "graders": {"a": ALIKE, "b": TASK | {"dataset": "leg_count"}}}
    ((path, message),) = said(document | {"calculate_output": "a + b"})
    assert path == "grader.graders.b.dataset"
    assert "leg_count" in message


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("def grade(sample, item):\n    return 1", None),
        ("def grade(sample, item)\n    return 1", "SyntaxError"),
        ("def score(sample, item):\n    return 1", "defines no function grade"),
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
    ],
)
def test_source_is_tried_as_far_as_its_definitions(source, wanted):
    found = said(python(source))
    if wanted is None:
        assert found == []
    else:
        ((path, message),) = found
        assert path == "grader.source"
        assert wanted in message


def test_source_is_refused_where_no_sandbox_runs(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    sandbox_available.cache_clear()
    try:
        ((path, message),) = said(python("def grade(sample, item): return 1"))
    finally:
        sandbox_available.cache_clear()
    assert path == "grader"
    assert "bubblewrap is not installed" in message

"""Graders: each type tried, and what goes wrong told by flags."""

from typing import Any

from case import Case, refused
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
JUDGE = {
    "type": "score_model",
    "name": "judge",
    "model": "org/toy",
    "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
}
ITEM = {"answer": "Paris"}


def validate(case: Case) -> None:
    for grader in (EXACT, CLOSE, BOTH, *_python(case, "return 1.0")):
        found = _graders(case).validate(grader=grader)
        assert found.grader.name == grader["name"]
    refused(BadRequestError, lambda: _graders(case).validate(grader={**EXACT, "operation": "?"}))


def run(case: Case) -> None:
    for grader in (
        EXACT,
        CLOSE,
        BOTH,
        *_python(case, "return float(sample['output_text'] == 'Paris')"),
    ):
        found = _run(case, grader, "Paris")
        assert found.reward == 1.0, grader["type"]
        assert (found.metadata.name, found.metadata.type) == (grader["name"], grader["type"])
        assert _flags(found) == []
    assert set(_run(case, BOTH, "Paris!").sub_rewards) == {"exact", "close"}


def error_flags(case: Case) -> None:
    cases = [
        (EXACT, {}, "invalid_variable_error"),
        ({**BOTH, "calculate_output": "exact / 0"}, ITEM, "formula_parse_error"),
        *(
            (grader, ITEM, "python_grader_runtime_error")
            for grader in _python(case, "return 1 / 0")
        ),
    ]
    for grader, item, flag in cases:
        found = _run(case, grader, "x", item)
        assert found.reward == 0.0
        assert _flags(found) == [flag]


def judges(case: Case) -> None:
    """No judge model runs here: that is refused, and not graded as nothing."""
    error = refused(BadRequestError, lambda: _run(case, JUDGE, "x"))
    assert error.param.startswith("grader")


def _graders(case: Case) -> Any:
    return case.client.fine_tuning.alpha.graders


def _run(case: Case, grader: dict[str, Any], sample: str, item: Any = ITEM) -> Any:
    return _graders(case).run(grader=grader, model_sample=sample, item=item)


def _flags(found: Any) -> list[str]:
    return [name for name, is_set in found.metadata.errors if is_set is True]


def _python(case: Case, body: str) -> list[dict[str, Any]]:
    """A python grader, where there is a sandbox for it."""
    source = f"def grade(sample, item):\n    {body}\n"
    grader = {"type": "python", "name": "python", "source": source}
    return [grader] if case.told["sandbox"] else []


ITEMS = {
    "graders.validate": validate,
    "graders.run": run,
    "graders.error_flags": error_flags,
    "graders.score_model": judges,
}

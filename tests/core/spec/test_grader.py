"""A grader that cannot be read is refused at the place where the user typed it."""

import pytest

from core.spec.grader import parse_grader
from core.spec.tree import SpecError

CHECK = {
    "type": "string_check",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.a }}",
    "operation": "eq",
}
ALIKE = {"type": "text_similarity", "input": "a", "reference": "b", "evaluation_metric": "bleu"}
ROOT = "method.reinforcement.grader"


def multi(graders, formula="f"):
    return {"type": "multi", "graders": graders, "calculate_output": formula}


def refused(document):
    with pytest.raises(SpecError) as error:
        parse_grader(document, path=ROOT)
    (problem,) = error.value.problems
    return problem.path.removeprefix(ROOT), problem.message


@pytest.mark.parametrize(
    ("document", "path", "said"),
    [
        ({**CHECK, "operation": "equals"}, ".operation", "'ilike'"),
        ({**CHECK, "inputs": "x"}, ".inputs", "did you mean 'input'"),
        ({**CHECK, "input": "{{ row.x }}"}, ".input", "at character 3"),
        ({"type": "score_model", "model": "x"}, "", "no judge model runs here"),
        ({"type": "label_model"}, "", "no judge model runs here"),
        ({"type": "regex"}, "", "'string_check'"),
        ({}, "", "'type'"),
        ({**ALIKE, "evaluation_metric": "cosine"}, ".evaluation_metric", "embedding model"),
        ({**ALIKE, "evaluation_metric": "meteor"}, ".evaluation_metric", "WordNet"),
        ({**ALIKE, "pass_threshold": 2}, ".pass_threshold", "less than or equal to 1"),
        ({"type": "python"}, ".source", "is required"),
        ({"type": "python", "source": "é" * 128_001}, ".source", "256002 bytes"),
        ({"type": "python", "source": "x", "image_tag": "a"}, ".image_tag", "one image"),
        ({"type": "math"}, ".reference", "is required"),
        ({"type": "reasoning_gym", "dataset": "x", "entry": "item"}, ".entry", "one reference"),
        (multi({"f": {**CHECK, "operation": "is"}}), ".graders.f.operation", "'eq'"),
        (multi([CHECK, {**ALIKE, "name": 3}]), ".graders[1].name", "string"),
        (multi({**CHECK, "operation": "is"}), ".graders.operation", "'eq'"),
        (multi({"by_variable": {"type": "math"}}), ".graders.by_variable.reference", "required"),
        (multi({"f": multi(CHECK)}), ".graders.f", "holds no multi grader"),
        (multi({"f": {"type": "score_model"}}), ".graders.f", "no judge model"),
        (multi([CHECK, CHECK]), ".graders", "two of one name"),
        (multi({}), ".graders", "at least 1"),
        (multi({"f": CHECK}, "f + (g"), ".calculate_output", "at character 6"),
        (multi({"f": CHECK}, "f + g"), ".calculate_output", "at character 4: no grader is called"),
    ],
)
def test_a_fault_is_told_where_it_was_typed(document, path, said):
    where, message = refused(document)
    assert where == path
    assert said in message


@pytest.mark.parametrize("document", [CHECK, ALIKE, multi({"f": CHECK}), multi([CHECK], "1")])
def test_what_is_read_is_written_and_read_again_alike(document):
    spec = parse_grader(document)
    assert parse_grader(spec.model_dump(mode="json")) == spec


def test_neq_is_read_as_ne():
    assert parse_grader({**CHECK, "operation": "neq"}).operation == "ne"

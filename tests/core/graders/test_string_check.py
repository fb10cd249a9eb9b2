"""string_check compares as OpenAI's four words say."""

import pytest


@pytest.mark.parametrize(
    ("operation", "text", "reference", "reward"),
    [
        ("eq", "Paris", "Paris", 1),
        ("eq", "paris", "Paris", 0),
        ("eq", "Paris ", "Paris", 0),
        ("ne", "Rome", "Paris", 1),
        ("neq", "Paris", "Paris", 0),
        ("like", "in Paris.", "Paris", 1),
        ("like", "in paris.", "Paris", 0),
        ("like", "Par", "Paris", 0),
        ("ilike", "in PARIS.", "paris", 1),
        ("ilike", "STRASSE", "straße", 1),
        ("ilike", "Rome", "Paris", 0),
    ],
)
def test_two_strings_compare(graded, operation, text, reference, reward):
    document = {
        "type": "string_check",
        "name": "right",
        "input": "{{ sample.output_text }}",
        "reference": "{{ item.answer }}",
        "operation": operation,
    }
    grade = graded(document, text, {"answer": reference})
    assert (grade.reward, grade.scores, grade.sub_rewards) == (reward, {"right": reward}, {})
    assert not grade.errors


def test_a_row_without_the_field_is_worth_nothing_and_says_so(graded):
    document = {
        "type": "string_check",
        "input": "{{ item.answer }}",
        "reference": "",
        "operation": "like",
    }
    grade = graded(document, "x", {"reply": "x"})
    assert grade.reward == 0
    assert grade.errors.invalid_variable_error

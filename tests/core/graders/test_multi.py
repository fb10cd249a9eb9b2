"""A multi grader is its formula over its members, in whatever shape they are given."""

import pytest

CHECK = {
    "type": "string_check",
    "name": "right",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
    "operation": "ilike",
}
EXACT = {**CHECK, "name": "exact", "operation": "eq"}


def multi(graders, formula):
    return {"type": "multi", "name": "m", "graders": graders, "calculate_output": formula}


@pytest.mark.parametrize(
    "graders", [{"right": CHECK, "exact": EXACT}, [CHECK, EXACT]], ids=["object", "list"]
)
def test_members_are_weighed_by_the_formula(graded, graders):
    grade = graded(multi(graders, "0.75 * right + 0.25 * exact"), "PARIS", {"answer": "Paris"})
    assert grade.reward == 0.75
    assert grade.sub_rewards == {"right": 1.0, "exact": 0.0}
    assert (grade.name, grade.type) == ("m", "multi")
    assert grade.execution_time > 0


def test_a_single_member_goes_by_its_name(graded):
    assert graded(multi(CHECK, "1 - right"), "Rome", {"answer": "Paris"}).reward == 1.0


def test_a_formula_that_is_undefined_here_gives_nothing_and_its_flag(graded):
    grade = graded(multi(CHECK, "1 / right"), "Rome", {"answer": "Paris"})
    assert grade.reward == 0.0
    assert grade.errors.flags() == ["formula_parse_error"]
    assert grade.sub_rewards == {"right": 0.0}


def test_a_member_that_fails_is_never_turned_into_a_reward(graded):
    grade = graded(multi({"penalty": CHECK, "other": EXACT}, "1 - penalty"), "Rome", {})
    assert grade.reward == 0.0
    assert grade.errors.invalid_variable_error

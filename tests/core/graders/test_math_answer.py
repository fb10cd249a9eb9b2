"""An answer counts by what quantity it is, not by how it is written."""

import pytest

from core.graders.grade import Grading
from core.graders.inside.confine import Limits
from core.graders.sample import Sample
from core.spec.grader import parse_grader

SPEC = parse_grader({"type": "math", "reference": "{{ item.answer }}"})


@pytest.fixture(scope="module")
def grading():
    with Grading(SPEC, limits=Limits(5.0)) as grading:
        grading.grade(Sample("1"), {"answer": "1"})  # later tests do not pay for the start
        yield grading


@pytest.mark.parametrize(
    ("text", "answer", "reward"),
    [
        ("so it is $\\boxed{\\frac{2}{4}}$", "0.5", 1),
        ("The answer is 42.", "42", 1),
        ("The answer is 41.", "42", 0),
        ("$x^2 + 2x + 1$", "(x+1)^2", 1),
        ("1,000", "1000", 1),
        ("no idea", "42", 0),
        ("", "42", 0),
        ("half", "\\frac{1}{2}", 0),
        ("$\\frac{1}{2}$", "\\frac12", 1),
    ],
)
def test_equal_quantities_are_equal(grading, text, answer, reward):
    grade = grading.grade(Sample(text), {"answer": answer})
    assert (grade.reward, grade.errors.flags()) == (reward, [])


def test_a_reference_that_is_no_mathematics_is_told(grading):
    grade = grading.grade(Sample("42"), {"answer": ""})
    assert grade.errors.other_error
    assert "no mathematics" in grade.errors.other_error_details


def test_an_answer_that_takes_for_ever_ends_alone(grading):
    grades = grading.grade_many(
        [(Sample("$9^{9^{9^{9}}}$"), {"answer": "2"}), (Sample("2"), {"answer": "2"})]
    )
    assert [grade.reward for grade in grades] == [0, 1]
    assert grades[0].errors
    assert not grades[1].errors

"""The task that made a row says what an answer to it is worth."""

import pytest
import reasoning_gym

from core.graders.grade import Grading
from core.graders.sample import Sample
from core.spec.grader import parse_grader

TASK = {"type": "reasoning_gym", "dataset": "leg_counting"}


@pytest.fixture(scope="module")
def entry():
    return reasoning_gym.create_dataset("leg_counting", size=1, seed=3)[0]


def test_right_answers_are_worth_more_than_wrong_ones(entry):
    texts = [entry["answer"], f"I count <answer> {entry['answer']} </answer> legs", "no legs"]
    with Grading(parse_grader(TASK)) as grading:
        grades = grading.grade_many([(Sample(text), entry) for text in texts])
        nothing = grading.grade(Sample("4"), {"question": "How many?"})
    assert [grade.reward for grade in grades] == [1.0, 1.0, 0.0]
    assert not any(grade.errors for grade in grades)
    assert nothing.errors.other_error
    assert "question, answer and metadata" in nothing.errors.other_error_details


def test_an_entry_may_stand_below_a_key_of_the_row(graded, entry):
    document = {**TASK, "entry": "{{ item.puzzles[0] }}"}
    assert graded(document, entry["answer"], {"puzzles": [entry]}).reward == 1.0
    assert graded(document, entry["answer"], {}).errors.invalid_variable_error

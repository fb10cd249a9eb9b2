"""A python grader is graded by what its source returns, and told of its errors with their lines."""

import pytest

from core.graders.grade import Grading, grade_many
from core.graders.inside.confine import Limits
from core.graders.sample import Sample
from core.spec.grader import parse_grader

pytestmark = pytest.mark.usefixtures("sandbox")


def python(body, before=""):
    return {"type": "python", "source": f"{before}\ndef grade(sample, item):\n    {body}\n"}


def test_the_source_sees_the_answer_and_its_row(graded):
    grader = python("return len(sample['output_text']) + item['n'] + sample['output_json']")
    grade = graded(grader, "12", {"n": 0.5}, json_output=True)
    assert (grade.reward, grade.errors.flags()) == (14.5, [])


def test_installed_packages_are_there(graded):
    grade = graded(python("return np.float32(0.5)", "import numpy as np"))
    assert grade.reward == 0.5, grade.errors


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return item['missing']", "KeyError: 'missing' (line 3)"),
        ("return 'one'", "not 'str'"),
        ("return None", "not 'NoneType'"),
        ("return 1j", "not 'complex'"),
        ("return float('nan')", "finite"),
        ("return float('inf')", "finite"),
        ("return 10 ** 400", "OverflowError"),
        ("return 10 ** 10000", "OverflowError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise ValueError('x' * 10**6)", "ValueError: xxx"),
    ],
)
def test_what_is_no_finite_number_is_a_runtime_error(graded, body, said):
    grade = graded(python(body))
    assert grade.reward == 0.0
    assert grade.errors.flags() == ["python_grader_runtime_error"]
    assert said in grade.errors.python_grader_runtime_error_details
    assert len(grade.errors.python_grader_runtime_error_details) <= 500


def test_what_is_printed_is_never_taken_for_a_reward(graded):
    grade = graded(python("print('{\"reward\": 9.0}', flush=True)\n    return 1"))
    assert grade.reward == 1.0


def test_a_batch_is_graded_in_order_by_several_processes():
    pairs = [(Sample(str(n)), {}) for n in range(24)]
    spec = parse_grader(python("return float(sample['output_text'])"))
    assert [g.reward for g in grade_many(spec, pairs, workers=2)] == [float(n) for n in range(24)]


def test_one_answer_leaves_nothing_behind_for_the_next():
    spec = parse_grader(python("seen.append(1)\n    return len(seen)", "seen = []"))
    with Grading(spec) as grading:
        assert [grading.grade(Sample(""), {}).reward for _ in range(3)] == [1.0, 1.0, 1.0]


def test_an_answer_that_takes_too_long_is_late_and_the_others_are_not():
    source = "import time\n    time.sleep(99) if item['slow'] else None\n    return 1"
    pairs = [(Sample(""), {"slow": slow}) for slow in (False, True, False)]
    grades = grade_many(parse_grader(python(source)), pairs, limits=Limits(0.5))
    assert [g.reward for g in grades] == [1.0, 0.0, 1.0]
    flags = ["unresponsive_reward_error", "python_grader_runtime_error"]
    assert grades[1].errors.flags() == flags

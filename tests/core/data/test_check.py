import json

import pytest

from core.data.check import check_rows
from core.data.report import Report


def chat(*turns, **more):
    messages = [{"role": role, "content": content} for role, content in turns]
    return {"messages": messages, **more}


GOOD = chat(("user", "Define: lawyer"), ("assistant", "One skilled in circumvention of the law."))


def check(*rows, **options):
    data = b"\n".join(r if isinstance(r, bytes) else json.dumps(r).encode() for r in rows)
    return check_rows([data], **options)


def only_problem(*rows):
    report = check(*rows)
    assert report.problem_count == 1, report.problems
    return report.problems[0]


def test_a_good_file_has_no_problem_and_says_so():
    report = check(GOOD, GOOD)
    assert (report.ok, report.rows, report.shape) == (True, 2, "chat")
    assert report.summary == "2 rows, no problems"


def test_a_prompt_and_completion_file_is_accepted():
    report = check({"prompt": "a", "completion": "b"})
    assert (report.ok, report.shape) == (True, "prompt_completion")


@pytest.mark.parametrize("data", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_rows_is_refused(data):
    report = check_rows([data])
    assert [p.code for p in report.problems] == ["empty_file"]
    assert not report.ok


def test_the_line_named_is_the_editors_line():
    # Public report evals#259: line 1 was named where 143 was wrong.
    good = json.dumps(GOOD).encode()
    report = check_rows([good + b"\n\n" * 70 + good + b"\n{oops\n"])
    assert [(p.line, p.code) for p in report.problems] == [(142, "invalid_json")]
    assert report.rows == 3


def test_two_shapes_in_one_file_are_refused_at_the_second():
    problem = only_problem(GOOD, {"prompt": "a", "completion": "b"})
    assert (problem.line, problem.code) == (2, "invalid_file_format")
    assert "line 1" in problem.message


def test_an_unknown_shape_is_refused_with_its_keys():
    problem = only_problem({"body": "x", "id": 3})
    assert problem.code == "invalid_file_format"
    assert "body, id" in problem.message


@pytest.mark.parametrize("row", [[], "x", 3, None, True])
def test_a_row_that_is_no_object_is_refused(row):
    assert only_problem(row).code == "invalid_file_format"


def test_a_row_with_every_weight_zero_has_nothing_to_train():
    row = {"messages": [*GOOD["messages"][:1], {**GOOD["messages"][1], "weight": 0}]}
    assert only_problem(row).code == "no_trainable_tokens"


def test_a_row_without_an_assistant_has_nothing_to_train():
    assert only_problem(GOOD, chat(("user", "hello"))).code == "no_trainable_tokens"
    assert only_problem(chat(("system", "hello"))).code == "no_trainable_tokens"


def test_a_row_must_end_with_the_assistant():
    row = chat(("user", "a"), ("assistant", "b"), ("user", "c"))
    assert only_problem(GOOD, row).pointer == "/messages/2/role"


def test_problems_are_capped_and_still_counted():
    report = check(*[b"{"] * 30, max_problems=4)
    assert (len(report.problems), report.problem_count, report.rows) == (4, 30, 30)
    assert report.summary.startswith("30 rows, 30 problems; first: line 1: not JSON")


def test_a_line_over_the_limit_is_a_problem_and_the_rest_is_read():
    report = check(GOOD, b'{"a":"' + b"x" * 500 + b'"}', GOOD, max_line_bytes=200)
    assert [(p.line, p.code) for p in report.problems] == [(2, "line_too_long")]
    assert report.rows == 3


def test_a_report_survives_json():
    report = check(GOOD, b"\xff\xfe{", {"a\x00b": 1})
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert "\x00" not in report.summary + "".join(p.message for p in report.problems)
    assert json.loads(report.model_dump_json())["ok"] is False

import json

import pytest

from core.data.check import check_rows
from core.data.parse import RowError, read_rows

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
SCHEMA = {"name": "f", "parameters": {"type": "object", "properties": {}}}


def problems(row):
    return check_rows([json.dumps(row).encode()]).problems


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "system", "content": "s"}, USER, ANSWER]},
        {"messages": [{"role": "developer", "content": "s"}, USER, ANSWER]},
        {"messages": [USER, {**ANSWER, "weight": 0}, USER, {**ANSWER, "weight": 1}]},
        {"messages": [{**USER, "name": "ada"}, {**ANSWER, "name": "bob"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}, ANSWER]},
        {"messages": [USER, {"role": "assistant", "content": None, "refusal": "no"}]},
        {
            "messages": [
                USER,
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "n"}]},
            ]
        },
        {"messages": [USER, {"role": "assistant", "content": None, "tool_calls": [CALL]}]},
        {"messages": [USER, {"role": "assistant", "function_call": CALL["function"]}]},
        {
            "messages": [
                USER,
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "1"},
                ANSWER,
            ],
            "tools": [{"type": "function", "function": SCHEMA}],
            "parallel_tool_calls": False,
        },
        {
            "messages": [USER, {"role": "function", "name": "f", "content": None}, ANSWER],
            "functions": [SCHEMA],
        },
    ],
)
def test_every_form_of_the_public_format_is_accepted(row):
    assert problems(row) == ()


@pytest.mark.parametrize(
    ("row", "pointer"),
    [
        ({"messages": []}, "/messages"),
        ({"messages": {}}, "/messages"),
        ({"messages": [USER, "x"]}, "/messages/1/role"),
        ({"messages": [{"role": "bard", "content": "x"}]}, "/messages/0/role"),
        ({"messages": [{"content": "x"}, ANSWER]}, "/messages/0/role"),
        ({"messages": [{"role": "user"}, ANSWER]}, "/messages/0/content"),
        ({"messages": [{"role": "user", "content": 3}, ANSWER]}, "/messages/0/content"),
        ({"messages": [{"role": "user", "content": None}, ANSWER]}, "/messages/0/content"),
        ({"messages": [{"role": "user", "content": []}, ANSWER]}, "/messages/0/content"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}, ANSWER]},
            "/messages/0/content/0/type",
        ),
        ({"messages": [USER, {**ANSWER, "weigth": 0}]}, "/messages/1/weigth"),
        ({"messages": [USER, {**ANSWER, "weight": 0.5}]}, "/messages/1/weight"),
        ({"messages": [{**USER, "weight": 1}, ANSWER]}, "/messages/0/weight"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "/messages/1"),
        ({"messages": [USER, ANSWER], "tool": []}, "/tool"),
        ({"messages": [USER, {**ANSWER, "a/b~c": 1}]}, "/messages/1/a~1b~0c"),
        ({"messages": [USER, ANSWER], "tools": [{"type": "function"}]}, "/tools/0/function"),
        ({"prompt": "a", "completion": None}, "/completion"),
    ],
)
def test_a_fault_is_named_by_its_pointer_with_a_hint(row, pointer):
    found = problems(row)
    assert [(p.pointer, p.code) for p in found] == [(pointer, "invalid_file_format")]
    assert found[0].hint


@pytest.mark.parametrize("arguments", ["{", "[1]", "", "NaN"])
def test_arguments_that_are_no_json_object_are_refused(arguments):
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    row = {"messages": [USER, {"role": "assistant", "tool_calls": [call]}]}
    assert [p.pointer for p in problems(row)] == ["/messages/1/tool_calls/0/function/arguments"]


def test_reading_gives_the_rows_with_their_lines_and_stops_at_a_bad_one():
    pair = b'\n{"prompt": "a", "completion": "b"}\n{}\n'
    rows = read_rows([pair])
    row = next(rows)
    assert (row.line, row.shape) == (2, "prompt_completion")
    assert [(m.role, m.content) for m in row.value.messages] == [("user", "a"), ("assistant", "b")]
    with pytest.raises(RowError, match="line 3"):
        next(rows)

"""Rows of every shape with one fault each: told by its place in the row."""

import json

import pytest

from core.data.check import check_rows

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
OTHER = {"role": "assistant", "content": "hu"}
SYSTEM = {"role": "system", "content": "s"}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "x = 1"}}
PAIR = {"preferred_output": [ANSWER], "non_preferred_output": [OTHER]}
ARGUMENTS = "/messages/1/tool_calls/0/function/arguments"
FORMAT = "invalid_file_format"
NOTHING = "no_trainable_tokens"


def said(*turns):
    return [{"from": who, "value": "x"} for who in turns]


BROKEN = [
    # no shape, or two
    ({"body": "x"}, "", FORMAT),
    ({"messages": [USER, ANSWER], "prompt": "a"}, "", FORMAT),
    ({"messages": [USER], "text": "a"}, "", FORMAT),
    ({"text": "a", "input_ids": [1, 2]}, "", FORMAT),
    ({"prompt": "a", "completion": "b", "chosen": "b", "rejected": "c"}, "", FORMAT),
    # chat
    ({"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}]}, ARGUMENTS, FORMAT),
    (
        {"messages": [USER, {"role": "assistant", "tool_calls": []}]},
        "/messages/1/tool_calls",
        FORMAT,
    ),
    ({"messages": [USER, {**ANSWER, "weight": "1"}]}, "/messages/1/weight", FORMAT),
    ({"messages": [USER, {**ANSWER, "weight": 0}]}, "/messages", NOTHING),
    ({"messages": [USER, ANSWER], "tools": {}}, "/tools", FORMAT),
    ({"messages": [USER, ANSWER, SYSTEM]}, "/messages/2/role", FORMAT),
    ({"prompt": "a"}, "/completion", FORMAT),
    ({"completion": "a"}, "/prompt", FORMAT),
    ({"prompt": [USER], "completion": "a"}, "/prompt", FORMAT),
    # alpaca
    ({"instruction": "a"}, "/output", FORMAT),
    ({"instruction": "a", "output": 3}, "/output", FORMAT),
    ({"instruction": "a", "input": [], "output": "b"}, "/input", FORMAT),
    ({"instruction": "a", "output": "b", "history": []}, "/history", FORMAT),
    # ShareGPT
    ({"conversations": []}, "/conversations", FORMAT),
    ({"conversations": said("human", "bard")}, "/conversations/1/from", FORMAT),
    ({"conversations": [{"from": "human"}]}, "/conversations/0/value", FORMAT),
    ({"conversations": [USER, ANSWER]}, "/conversations/0/from", FORMAT),
    ({"conversations": said("human", "gpt", "human")}, "/conversations/2/from", FORMAT),
    ({"conversations": said("human")}, "/conversations", NOTHING),
    ({"conversations": said("human", "gpt"), "system": 1}, "/system", FORMAT),
    # text
    ({"text": ""}, "/text", NOTHING),
    ({"text": ["a"]}, "/text", FORMAT),
    # preferences
    (
        {"input": {"messages": [USER]}, "preferred_output": [ANSWER]},
        "/non_preferred_output",
        FORMAT,
    ),
    ({**PAIR, "input": {"messages": []}}, "/input/messages", FORMAT),
    ({**PAIR, "input": [USER]}, "/input", FORMAT),
    ({**PAIR}, "/input", FORMAT),
    ({**PAIR, "input": {"messages": [USER]}, "preferred_output": []}, "/preferred_output", FORMAT),
    (
        {**PAIR, "input": {"messages": [USER]}, "preferred_output": [USER]},
        "/preferred_output/0/role",
        FORMAT,
    ),
    (
        {**PAIR, "input": {"messages": [USER]}, "non_preferred_output": [ANSWER]},
        "/non_preferred_output",
        "no_preference",
    ),
    (
        {**PAIR, "input": {"messages": [USER]}, "preferred_output": [{**ANSWER, "weight": 0}]},
        "/preferred_output",
        NOTHING,
    ),
    ({"prompt": "a", "chosen": "", "rejected": "b"}, "/chosen", FORMAT),
    ({"prompt": "a", "chosen": "b", "rejected": "b"}, "/rejected", "no_preference"),
    ({"prompt": "a", "chosen": "b"}, "/rejected", FORMAT),
    ({"prompt": 3, "chosen": "b", "rejected": "c"}, "/prompt", FORMAT),
    ({"prompt": [USER], "chosen": [], "rejected": "c"}, "/chosen", FORMAT),
    ({"prompt": "a", "chosen": [SYSTEM, ANSWER], "rejected": "c"}, "/chosen/0/role", FORMAT),
    ({"chosen": "b", "rejected": "c"}, "/prompt", FORMAT),
    ({"chosen": [USER, ANSWER], "rejected": [USER, ANSWER]}, "/rejected", "no_preference"),
    ({"chosen": [ANSWER], "rejected": [OTHER]}, "/rejected", FORMAT),
    ({"chosen": [USER, ANSWER], "rejected": [USER, {"role": "x"}]}, "/rejected/1/role", FORMAT),
    # prompts
    ({"messages": [{"role": "user"}], "answer": 4}, "/messages/0/content", FORMAT),
    ({"messages": [USER], "tools": [{"type": "f"}]}, "/tools/0/type", FORMAT),
    # tokens
    ({"input_ids": []}, "/input_ids", FORMAT),
    ({"input_ids": "1 2"}, "/input_ids", FORMAT),
    ({"input_ids": [1, -2]}, "/input_ids/1", FORMAT),
    ({"input_ids": [1, 2.0]}, "/input_ids/1", FORMAT),
    ({"input_ids": [True, 2]}, "/input_ids/0", FORMAT),
    ({"input_ids": [1, 2**31]}, "/input_ids/1", FORMAT),
    ({"input_ids": [1]}, "/input_ids", NOTHING),
    ({"input_ids": [1, 2], "labels": [1]}, "/labels", FORMAT),
    ({"input_ids": [1, 2], "labels": [-100, 3]}, "/labels/1", FORMAT),
    ({"input_ids": [1, 2], "labels": [1, -100]}, "/labels", NOTHING),
    ({"input_ids": [1, 2], "attention_mask": [1]}, "/attention_mask", FORMAT),
    ({"input_ids": [1, 2], "attention_mask": [0, 0]}, "/attention_mask", NOTHING),
    ({"input_ids": [1, 2, 3], "attention_mask": [1, 0, 1]}, "/attention_mask/1", FORMAT),
    ({"input_ids": [1, 2], "attention_mask": [1, 2]}, "/attention_mask/1", FORMAT),
    ({"input_ids": [1, 2], "token_type_ids": [0, 0]}, "/token_type_ids", FORMAT),
]


@pytest.mark.parametrize(
    ("row", "pointer", "code"), BROKEN, ids=[json.dumps(b[0])[:60] for b in BROKEN]
)
def test_the_fault_is_named_by_line_pointer_and_code(row, pointer, code):
    report = check_rows([b"\n" + json.dumps(row).encode()])
    found = [(p.line, p.pointer, p.code) for p in report.problems]
    assert found[0] == (2, pointer, code), report.problems
    assert all(p.hint for p in report.problems)


@pytest.mark.parametrize(
    ("first", "second", "pointer"),
    [
        ({"text": "a"}, {"prompt": "a", "completion": "b"}, ""),
        ({"instruction": "a", "output": "b"}, {"messages": [USER, ANSWER]}, ""),
        ({"messages": [USER, ANSWER]}, {"messages": [USER], "answer": 4}, ""),
        ({"messages": [USER], "answer": 4}, {"messages": [USER, ANSWER]}, ""),
        ({"messages": [USER, ANSWER]}, {"messages": [USER, ANSWER, USER]}, "/messages/2/role"),
        ({"messages": [USER]}, {"messages": [USER, ANSWER], "answer": 4}, "/messages/1/role"),
        ({"messages": [USER, ANSWER]}, {"messages": [USER, ANSWER], "tool": []}, "/tool"),
    ],
)
def test_a_second_shape_is_refused_at_its_line_in_the_words_of_the_first(first, second, pointer):
    data = json.dumps(first) + "\n\n" + json.dumps(second)
    (problem,) = check_rows([data.encode()]).problems
    assert (problem.line, problem.pointer, problem.code) == (3, pointer, FORMAT)
    assert pointer or "at line 1" in problem.message

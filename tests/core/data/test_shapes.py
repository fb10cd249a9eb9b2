"""What each shape of row becomes."""

import json

import pytest

from core.data.kinds import Document, Preference, Prompt, Tokens
from core.data.parse import read_rows
from core.data.rows import ChatRow

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
WORSE = {"role": "assistant", "content": "hu"}
CALLING = {
    "role": "assistant",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "1"}


def only_row(row):
    (read,) = read_rows([json.dumps(row).encode()])
    return read.shape, read.value


def turns(messages):
    return [(m.role, m.content) for m in messages]


@pytest.mark.parametrize(
    ("shape", "row", "expected"),
    [
        ("chat", {"messages": [USER, ANSWER]}, [("user", "hi"), ("assistant", "ho")]),
        (
            "prompt_completion",
            {"prompt": "hi", "completion": "ho"},
            [("user", "hi"), ("assistant", "ho")],
        ),
        (
            "alpaca",
            {"instruction": "Add.", "input": "1 2", "output": "3"},
            [("user", "Add.\n\n1 2"), ("assistant", "3")],
        ),
        (
            "alpaca",
            {"instruction": "Add.", "input": "", "output": "3"},
            [("user", "Add."), ("assistant", "3")],
        ),
        ("alpaca", {"instruction": "Add.", "output": "3"}, [("user", "Add."), ("assistant", "3")]),
        (
            "sharegpt",
            {
                "system": "s",
                "conversations": [
                    {"from": "human", "value": "hi"},
                    {"from": "tool", "value": "1"},
                    {"from": "gpt", "value": "ho"},
                ],
            },
            [("system", "s"), ("user", "hi"), ("tool", "1"), ("assistant", "ho")],
        ),
    ],
)
def test_conversations_of_every_shape_become_one_kind(shape, row, expected):
    found, chat = only_row(row)
    assert (found, type(chat), turns(chat.messages)) == (shape, ChatRow, expected)


def test_text_is_a_document():
    assert only_row({"text": "once"}) == ("text", Document("once"))


@pytest.mark.parametrize("noun", ["output", "completion"])
def test_a_preference_of_openais_form_keeps_its_tools(noun):
    tools = [{"type": "function", "function": {"name": "f"}}]
    row = {
        "input": {"messages": [USER], "tools": tools, "parallel_tool_calls": False},
        f"preferred_{noun}": [CALLING, RESULT, ANSWER],
        f"non_preferred_{noun}": [WORSE],
    }
    shape, value = only_row(row)
    assert (shape, type(value)) == ("preference", Preference)
    assert turns(value.prompt.messages) == [("user", "hi")]
    assert (value.prompt.tools[0].function.name, value.prompt.parallel_tool_calls) == ("f", False)
    assert [m.role for m in value.chosen] == ["assistant", "tool", "assistant"]
    assert turns(value.rejected) == [("assistant", "hu")]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hi", "chosen": "ho", "rejected": "hu"},
        {"prompt": [USER], "chosen": [ANSWER], "rejected": [WORSE]},
        {"prompt": [USER], "chosen": "ho", "rejected": [WORSE]},
        {"prompt": "hi", "chosen": [USER, ANSWER], "rejected": [USER, WORSE]},
        {"chosen": [USER, ANSWER], "rejected": [USER, WORSE]},
    ],
)
def test_chosen_and_rejected_mean_the_same_in_every_form(row):
    shape, value = only_row(row)
    assert shape == "chosen_rejected"
    assert turns(value.prompt.messages) == [("user", "hi")]
    assert turns(value.chosen) == [("assistant", "ho")]
    assert turns(value.rejected) == [("assistant", "hu")]


def test_a_common_beginning_leaves_both_sides_an_answer():
    longer = [USER, ANSWER, USER, WORSE]
    _, value = only_row({"chosen": longer, "rejected": [*longer[:3], ANSWER]})
    assert (len(value.prompt.messages), turns(value.chosen)) == (3, [("assistant", "hu")])
    _, value = only_row(
        {"chosen": [USER, CALLING, RESULT, ANSWER], "rejected": [USER, CALLING]}
        | {"rejected": [USER, CALLING, {**RESULT, "content": "2"}, ANSWER]}
    )
    assert [m.role for m in value.chosen] == ["assistant", "tool", "assistant"]


def test_a_row_that_waits_for_an_answer_is_a_prompt_with_its_own_keys():
    row = {"messages": [USER], "answer": {"n": [4, None]}, "output": "x", "level": 2}
    shape, value = only_row(row)
    assert (shape, type(value)) == ("rft", Prompt)
    assert turns(value.chat.messages) == [("user", "hi")]
    assert value.item == {"answer": {"n": [4, None]}, "output": "x", "level": 2}
    assert only_row({"messages": [USER, CALLING, RESULT]})[1].item == {}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"input_ids": [5, 6, 7]}, Tokens([5, 6, 7], [False, True, True])),
        (
            {"input_ids": [5, 6, 7], "labels": [5, -100, 7]},
            Tokens([5, 6, 7], [False, False, True]),
        ),
        # Padding by mask, never by id: the first 9 is the end of the answer.
        (
            {"input_ids": [5, 9, 9, 9], "attention_mask": [1, 1, 0, 0], "labels": [-100, 9, 9, 9]},
            Tokens([5, 9], [False, True]),
        ),
        (
            {"input_ids": [9, 5, 6], "attention_mask": [0, 1, 1], "labels": [-100, 5, 6]},
            Tokens([5, 6], [False, True]),
        ),
    ],
)
def test_tokens_lose_their_padding_and_keep_their_marks(row, expected):
    assert only_row(row) == ("tokens", expected)

"""Columns that a data set has beside a row: ignored and told, unless they were meant to be learnt."""

import json

import pytest

from core.data.check import check_rows
from core.data.parse import read_rows
from core.data.shapes.columns import MAX_COLUMNS

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho"}
OTHER = {"role": "assistant", "content": "hu"}
TURNS = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]
CHAT = {"messages": [USER, ANSWER]}
PAIR = {"input": {"messages": [USER]}, "preferred_output": [ANSWER]}
PAIR["non_preferred_output"] = [OTHER]


def check(*rows):
    return check_rows([b"\n".join(json.dumps(row).encode() for row in rows)])


PUBLIC = [
    {"id": "QWJhYvA_0", "conversations": TURNS},
    {"conversations": TURNS, "source": "a", "weight_decay": 1, "model": "m", "score": 0.5},
    {"text": "a", "meta": {"set": "b"}, "url": "c", "timestamp": "2020", "label": 1, "labels": 2},
    {"text": "a", "id": 1, "dump": "b", "date": "c", "token_count": 3, "test": 0, "system": "s"},
    {"instruction": "a", "input": "", "output": "b", "category": "c", "id": 7},
    {"prompt": "a", "completion": "b", "prompt_id": "c", "split": "train"},
    {**CHAT, "id": 1, "source": "a", "metadata": {"messages": 3}, "topic": "b"},
    {"prompt": "a", "chosen": "b", "rejected": "c", "score_chosen": 1, "score_rejected": 0},
    {"chosen": [USER, ANSWER], "rejected": [USER, OTHER], "prompt_id": "a", "margin": 2},
    {**PAIR, "id": 1},
    {"input_ids": [1, 2], "length": 2, "source": "a"},
]


@pytest.mark.parametrize("row", PUBLIC, ids=[",".join(row) for row in PUBLIC])
def test_columns_of_public_data_sets_are_ignored_and_counted(row):
    report = check(row, row | {"source": "z"})
    assert report.ok, report.problems
    extra = report.ignored
    assert all(count in (1, 2) for count in extra.values())
    note = next(w for w in report.warnings if w.code == "ignored_columns")
    assert all(f"{key} ({count})" in note.message for key, count in extra.items())
    assert extra.keys() < row.keys() | {"source"}
    assert len(list(read_rows([json.dumps(row).encode()]))) == 1


MISSPELT = [
    ({"mesages": [USER, ANSWER]}, "", "messages"),
    ({"Messages": [USER, ANSWER]}, "", "messages"),
    ({"promt": "a", "completion": "b"}, "/promt", "prompt"),
    ({"prompt": "a", "compeltion": "b"}, "/compeltion", "completion"),
    ({"instruction": "a", "inputs": "b", "output": "c"}, "/inputs", "input"),
    ({"instruction": "a", "ouput": "c"}, "/ouput", "output"),
    ({"conversations": TURNS, "sytem": "a"}, "/sytem", "system"),
    ({**CHAT, "tool": []}, "/tool", "tools"),
    ({**CHAT, "wieght": 0}, "/wieght", "weight"),
    ({**CHAT, "parallel-tool-calls": False}, "/parallel-tool-calls", "parallel_tool_calls"),
    ({"prompts": "a", "chosen": "b", "rejected": "c"}, "/prompts", "prompt"),
    ({"prompt": "a", "chosen": "b", "rejcted": "c"}, "/rejcted", "rejected"),
    ({"input_ids": [1, 2], "label": [1, 2]}, "/label", "labels"),
]


@pytest.mark.parametrize(("row", "pointer", "name"), MISSPELT, ids=[m[1] or "/" for m in MISSPELT])
def test_a_misspelt_key_is_refused_and_told_what_it_may_have_been(row, pointer, name):
    problems = {p.pointer: p for p in check(row).problems}
    assert f"Did you mean '{name}'?" in problems[pointer].hint


@pytest.mark.parametrize(
    ("row", "key"),
    [
        (CHAT, "system"),
        (CHAT, "weight"),
        ({"prompt": "a", "completion": "b"}, "system"),
        ({"instruction": "a", "output": "b"}, "history"),
        ({"conversations": TURNS}, "tools"),
        ({"input_ids": [1, 2]}, "loss_mask"),
        ({"input_ids": [1, 2]}, "position_ids"),
    ],
)
def test_a_key_that_would_change_what_is_learnt_is_refused(row, key):
    (problem,) = check(row | {key: "x"}).problems
    assert (problem.pointer, problem.code) == (f"/{key}", "invalid_file_format")
    assert "cannot say this" in problem.hint


def test_inside_a_message_every_unknown_key_is_refused():
    (problem,) = check({"messages": [USER, {**ANSWER, "id": 1}]}).problems
    assert problem.pointer == "/messages/1/id"


def test_rows_that_differ_in_ignored_columns_alone_are_the_same_row():
    report = check({"text": "a", "id": 1}, {"text": "a", "id": 2}, {"text": "b", "id": 1})
    assert (report.duplicate_count, report.ignored) == (1, {"id": 3})


def test_the_last_word_of_the_user_in_a_chat_file_with_columns_is_named_at_its_place():
    report = check({**CHAT, "id": 1}, {"messages": [USER, ANSWER, USER], "id": 2})
    assert [(p.line, p.pointer) for p in report.problems] == [(2, "/messages/2/role")]


def test_a_row_of_endless_columns_is_refused_and_what_is_remembered_stays_small():
    wide = {"text": "a"} | {f"k{n}": n for n in range(MAX_COLUMNS)}
    assert "256 keys" in check(wide).problems[0].message
    rows = [{"text": str(n)} | {f"{'x' * 90}{n}_{k}": 0 for k in range(40)} for n in range(30)]
    report = check(*rows, *[{"text": "a", f"k{n}": 0} for n in range(300)])
    assert report.ok
    assert len(report.ignored) <= MAX_COLUMNS
    assert len(report.model_dump_json()) < 25_000

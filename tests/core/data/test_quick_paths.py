"""What is read quickly is read as the strict readers read it."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json

from core.data import json_row
from core.data.fault import Refusal
from core.data.kinds import Document
from core.data.lines import Line
from core.data.plain import is_plain_chat, is_plain_text
from core.data.shapes.chat import parse_chat
from core.data.shapes.detect import shape_of
from core.data.shapes.text import parse_text

KEYS = [
    b'"a"',
    b'"b"',
    b'"\\u0061"',
    b'"a\\""',
    b'"\\u0022"',
    b'"\\\\"',
    b'"\\\\u0022"',
    b'"\xc3\xa9"',
]
LEAVES = [
    *KEYS,
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b'"Infinity"',
    b"1e999",
    b"-1e999",
    b"1",
    b"-0.0",
]
LEAVES += [b"9" * 30, b"9" * 4301, b"NaN", b"true", b"null", b'""', b'"\\/"', b"1e-400", b'"\\n"']
SPACE = st.sampled_from([b"", b" ", b"\t "])
VALUE = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: b"[" + b",".join(items) + b"]")
        | st.lists(st.tuples(st.sampled_from(KEYS), SPACE, inner), max_size=4).map(
            lambda pairs: b"{" + b", ".join(k + s + b":" + v for k, s, v in pairs) + b"}"
        )
    ),
    max_leaves=10,
)


def both(data, monkeypatch):
    """What comes of a line, and what would if every line took the closer look."""

    def outcome():
        try:
            return json_row.json_row(Line(1, data))
        except Refusal as refusal:
            return refusal.faults

    quick = outcome()
    with monkeypatch.context() as patch:
        patch.setattr(json_row, "_all_kept", lambda *_: False)
        return quick, outcome()


@settings(max_examples=600, deadline=None)
@given(VALUE, VALUE)
def test_a_line_is_read_or_refused_as_by_the_closer_look(one, other):
    with pytest.MonkeyPatch.context() as patch:
        data = b'{"a": %b, "c": [%b]}' % (one, other)
        quick, strict = both(data, patch)
        assert repr(quick) == repr(strict)


@pytest.mark.parametrize(
    ("data", "quick"),
    [
        (b'{"a": "b", "c": {"a": "say \\"b\\" \\\\"}}', True),
        (b'{"a": 1, "\\u0061": "\\u0022\\u0022"}', False),
        (b'{"a": 1, "a": "\\u0022\\u0022"}', False),
        (b'{"a": {"b": 1, "b": 1}}', False),
        (b'{"a": 1e999}', False),
    ],
)
def test_only_what_surely_lost_nothing_is_spared_the_closer_look(data, quick):
    assert json_row._all_kept(data, from_json(data)) is quick


TEXT = st.sampled_from(["", "x"]) | st.text(max_size=4)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "assistant", "tool", 3])},
    optional={
        "content": TEXT | st.none() | st.just([{"type": "text", "text": "x"}]),
        "weight": st.sampled_from([0, 1, True]),
        "extra": TEXT,
    },
)
ROW = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE | TEXT, max_size=3) | TEXT | st.just({})},
    optional={"tools": st.none(), "id": TEXT},
)


@settings(max_examples=400, deadline=None)
@given(ROW)
def test_a_row_that_is_plainly_right_is_one_that_the_strict_reader_takes(row):
    if not is_plain_chat(row):
        return
    assert shape_of(row, "chat") == "chat"
    try:
        chat = parse_chat(row)
    except (ValidationError, Refusal) as error:
        raise AssertionError(row) from error
    assert [(m.role, m.content) for m in chat.messages] == [
        (m["role"], m["content"]) for m in row["messages"]
    ]


def test_a_plain_row_is_seen_as_plain():
    turns = [("developer", "d"), ("user", ""), ("assistant", "b"), ("user", "c"), ("assistant", "")]
    row = {"messages": [{"role": role, "content": text} for role, text in turns]}
    assert is_plain_chat(json.loads(json.dumps(row)))
    assert not is_plain_chat({"messages": row["messages"][:-1]})
    assert not is_plain_chat({**row, "id": 1})


@pytest.mark.parametrize(
    "row", [{"text": "a"}, {"text": ""}, {"text": 3}, {"text": "a", "id": 1}, {"a": "b"}]
)
def test_a_text_is_plain_where_it_is_all_there_is(row):
    assert is_plain_text(row) is (row == {"text": "a"})
    if is_plain_text(row):
        assert shape_of(row, "text") == "text"
        assert parse_text(row) == Document("a")

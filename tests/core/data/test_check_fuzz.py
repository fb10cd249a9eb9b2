"""No bytes make the check raise, and no report is more than JSON can hold."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.check import check_rows

ROLE = st.sampled_from(["system", "developer", "user", "assistant", "tool", "function", "x", 3])
KEY = st.sampled_from(["role", "content", "weight", "tool_calls", "name", "type", "text", "<a>"])
LEAF = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | ROLE
VALUE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEY | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
MESSAGE = st.fixed_dictionaries({"role": ROLE}, optional={"content": VALUE, "tool_calls": VALUE})
ROW = st.fixed_dictionaries(
    {}, optional={"messages": st.lists(MESSAGE, max_size=3) | VALUE, "prompt": LEAF, "tools": VALUE}
)
NASTY = [
    b"[" * 100_000,
    b'{"messages":' * 5000,
    b'{"messages":[' + b"[" * 500,
    b"1" * 100_000,
    b'{"messages": 1e999999}',
    b'{"messages": NaN}',
    b'{"messages": -Infinity}',
    b'{"messages": "\\ud800"}',
    b'{"\xed\xa0\x80": 1}',
    b"\x00",
    b'{"\\u0000": "\\u0000"}',
    b'{"messages": [{"role": "\\u0000\\u202e"}]}',
    b"\xff\xfe{\x00}\x00",
    b'{"a": 1}{"a": 2}',
    b'{"messages": [' + b"0," * 100_000 + b"0]}",
    b'{"messages": [{"role": "user", ' + b",".join(b'"k%d":0' % i for i in range(9999)) + b"}]}",
]


def assert_sound(data):
    report = check_rows([data], max_problems=5)
    text = report.model_dump_json()
    assert report.ok == (report.problem_count == 0)
    assert len(report.problems) == min(5, report.problem_count)
    words = [p.message + p.pointer + p.hint for p in report.problems]
    assert "".join([report.summary, *words]).isprintable()
    assert len(text) < 5000
    text.encode("utf-8")


@pytest.mark.parametrize("data", NASTY, ids=[repr(d[:20]) for d in NASTY])
def test_hostile_bytes_end_in_a_small_report(data):
    assert_sound(data)
    assert not check_rows([data]).ok
    assert check_rows([data]).problem_count <= 3


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_end_in_a_report(data):
    assert_sound(data)


@settings(max_examples=200, deadline=None)
@given(st.lists(ROW, max_size=3))
def test_random_rows_end_in_a_report(rows):
    assert_sound(b"\n".join(json.dumps(row).encode() for row in rows))

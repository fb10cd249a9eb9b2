"""However a container is damaged, and whatever keys a row has, the check ends in a report."""

import gzip
import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.check import check_rows

ROWS = [
    {"messages": [{"role": "user", "content": f"{n}?"}], "answer": str(n % 7)} for n in range(200)
]
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def parquet():
    file = BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), file, row_group_size=64)
    return file.getvalue()


WHOLE = {"gzip": gzip.compress(LINES), "zstd": zstandard.compress(LINES), "parquet": parquet()}
EDIT = st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255))
LEAF = st.none() | st.booleans() | st.integers(-1, 9) | st.just("a") | st.just(10**4000)
MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool", "x"])})
VALUE = LEAF | st.lists(LEAF | MESSAGE, max_size=3) | st.dictionaries(st.just("messages"), LEAF)
KEYS = [
    "messages",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "conversations",
    "text",
    "preferred_output",
    "non_preferred_completion",
    "chosen",
    "rejected",
    "input_ids",
    "labels",
    "attention_mask",
    "answer",
]


@pytest.mark.parametrize("kind", WHOLE)
@settings(max_examples=60, deadline=None)
@given(edits=st.lists(EDIT, min_size=1, max_size=4), keep=st.floats(0.2, 1))
def test_damaged_containers_end_in_a_report(kind, edits, keep):
    data = bytearray(WHOLE[kind])
    for where, byte in edits:
        data[int(where * len(data))] = byte
    report = check_rows([bytes(data[: int(keep * len(data)) or 1])], max_problems=5)
    assert report.ok == (report.problem_count == 0)
    assert len(report.model_dump_json()) < 6000


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=3), min_size=1, max_size=3))
def test_rows_of_any_keys_end_in_a_report(rows):
    report = check_rows([json.dumps(row).encode() + b"\n" for row in rows])
    assert report.rows == len(rows)
    assert report.ok == (report.problem_count == 0)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 4300, "9" * 4301, "1e-999"])
def test_a_number_of_any_size_in_a_prompts_own_keys_is_bounded(number):
    row = f'{{"messages": [{{"role": "user", "content": "a"}}], "answer": {number}}}'
    report = check_rows([row.encode()])
    assert report.ok == (number in ("1e-999", "9" * 4300)), report.summary

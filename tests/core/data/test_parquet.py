"""Parquet files hold the same rows as lines do, and a broken one ends in a report."""

import json
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.check import check_rows
from core.data.parse import RowError, read_rows

USER = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "ho", "weight": 1}
CHATS = [{"messages": [USER, ANSWER]}, {"messages": [{**USER, "content": "hé"}, ANSWER]}] * 60


def parquet(rows, schema=None, **options):
    file = BytesIO()
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, file, **options)
    return file.getvalue()


def cut(data, size=997):
    return [data[n : n + size] for n in range(0, len(data), size)]


def lines(rows):
    return [json.dumps(row).encode() + b"\n" for row in rows]


@pytest.mark.parametrize(
    "rows",
    [
        CHATS,
        [{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}, {"input_ids": [4, 5]}],
        [{"messages": [USER], "answer": 4.5, "level": {"a": [1, 2]}}],
        [{"prompt": "a", "chosen": "b", "rejected": "c"}],
        [{"text": "x" * 5000}] * 3 + [{"text": "y"}],
    ],
    ids=["chat", "tokens", "rft", "preference", "text"],
)
@pytest.mark.parametrize("options", [{}, {"row_group_size": 2, "compression": "zstd"}])
def test_rows_are_those_of_the_same_lines(rows, options):
    assert list(read_rows(cut(parquet(rows, **options)))) == [
        # Lines are counted as rows are, from 1.
        *read_rows(lines(rows))
    ]


def test_a_fault_is_told_by_its_row():
    report = check_rows(cut(parquet([*CHATS, {"messages": [USER, {**ANSWER, "weight": 2}]}])))
    (problem,) = report.problems
    assert (problem.line, problem.unit, problem.pointer) == (121, "row", "/messages/1/weight")
    assert "row 121 /messages/1/weight" in report.summary
    assert report.rows == 121


def test_two_shapes_are_told_by_their_rows():
    rows = [{"text": "a", "prompt": None}, {"text": None, "prompt": "b", "completion": "c"}]
    schema = pa.schema([(name, pa.string()) for name in ("text", "prompt", "completion")])
    (problem,) = check_rows([parquet(rows, schema)]).problems
    assert (problem.line, problem.unit) == (2, "row")
    assert "at row 1" in problem.message


@pytest.mark.parametrize(
    ("data", "line", "pointer", "code"),
    [
        (parquet(CHATS)[:-1], 0, "", "damaged_container"),
        (parquet(CHATS)[:200], 0, "", "damaged_container"),
        (b"PAR1", 0, "", "damaged_container"),
        (b"PAR1" + b"\xff" * 50 + b"\x20\0\0\0PAR1", 0, "", "damaged_container"),
        (b"PARE" + b"\0" * 50 + b"PARE", 0, "", "unsupported_container"),
        (b"ARROW1\0\0" + b"\0" * 50, 0, "", "unsupported_container"),
        (parquet([], pa.schema([("text", pa.string())])), 0, "", "empty_file"),
        (parquet([{"body": "x"}]), 1, "", "invalid_file_format"),
        (parquet([{"text": 3}]), 1, "/text", "invalid_file_format"),
        (parquet([{"text": b"x"}]), 0, "/text", "invalid_file_format"),
        (
            parquet(
                [{"messages": 1, "at": 1}],
                pa.schema([("messages", "date32"), ("at", "date32")]),
            ),
            0,
            "/messages",
            "invalid_file_format",
        ),
        (
            parquet([{"messages": [USER], "score": float("nan")}]),
            1,
            "/score",
            "invalid_file_format",
        ),
        (parquet([{"input_ids": [1, None]}]), 1, "/input_ids/1", "invalid_file_format"),
    ],
)
def test_a_broken_file_ends_in_a_report(data, line, pointer, code):
    first = check_rows(cut(data)).problems[0]
    assert (first.line, first.pointer, first.code) == (line, pointer, code)
    if code != "empty_file":
        with pytest.raises(RowError):
            list(read_rows(cut(data)))


TIMED = pa.schema([("text", pa.string()), ("at", pa.timestamp("us")), ("score", pa.float64())])


def test_columns_that_no_shape_reads_may_hold_what_json_cannot():
    rows = [{"text": "a", "at": 1, "score": float("nan")}, {"text": "b", "at": None, "score": 1.0}]
    report = check_rows(cut(parquet(rows, TIMED)))
    assert (report.ok, report.ignored) == (True, {"score": 2, "at": 2})
    assert [row.value.text for row in read_rows([parquet(rows, TIMED)])] == ["a", "b"]


@pytest.mark.parametrize(("key", "kind"), [("at", pa.timestamp("us")), ("blob", pa.binary())])
def test_a_prompt_reads_all_its_columns_and_names_the_one_that_json_cannot_hold(key, kind):
    table = pa.Table.from_pylist([{"messages": [USER], "answer": 4}] * 2)
    file = BytesIO()
    pq.write_table(table.append_column(key, pa.array([None, None], kind)), file)
    report = check_rows([file.getvalue()])
    assert [(p.line, p.pointer) for p in report.problems] == [(1, f"/{key}"), (2, f"/{key}")]
    assert "is of type" in report.problems[0].message


def test_bytes_that_are_no_text_are_refused_at_their_row():
    column = pa.array([b"good", b"\xff\xfe"]).cast(pa.binary()).view(pa.string())
    file = BytesIO()
    pq.write_table(pa.table({"text": column}), file)
    (problem,) = check_rows([file.getvalue()]).problems
    assert (problem.line, problem.code) == (2, "invalid_encoding")


def test_a_page_that_was_damaged_after_writing_is_told():
    data = bytearray(parquet(CHATS, compression="zstd"))
    data[10:40] = b"\x00" * 30
    assert [p.code for p in check_rows([bytes(data)]).problems] == ["damaged_container"]


def test_a_row_and_a_file_have_limits():
    data = parquet([{"text": "a"}, {"text": "b" * 9000}, {"text": "c"}])
    report = check_rows([data], max_line_bytes=5000)
    assert [(p.line, p.code) for p in report.problems] == [(2, "line_too_long")]
    assert report.rows == 3
    for limit in (len(data) - 1, 100):
        (problem,) = check_rows(cut(data), max_total_bytes=limit).problems
        assert problem.code == "file_too_large"
    bomb = parquet([{"text": "b" * 10_000}], use_dictionary=False)
    assert len(bomb) < 5000
    (problem,) = check_rows([bomb], max_total_bytes=5000).problems
    assert problem.code == "file_too_large"

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core.data.lines import Line, numbered_lines


def lines(*chunks, limit=100):
    return list(numbered_lines(chunks, max_line_bytes=limit))


def test_blank_lines_are_skipped_but_counted():
    assert lines(b"a\n\n  \t\nb\n") == [Line(1, b"a"), Line(4, b"b")]


def test_last_line_needs_no_newline():
    assert lines(b"a\nb") == [Line(1, b"a"), Line(2, b"b")]


def test_crlf_is_one_ending_also_when_cut_between():
    assert lines(b"a\r", b"\nb\r\n") == [Line(1, b"a"), Line(2, b"b")]


def test_byte_order_mark_is_dropped_at_the_start_only():
    bom = b"\xef\xbb\xbf"
    assert lines(bom[:1], bom[1:] + b"a\n" + bom + b"b") == [Line(1, b"a"), Line(2, bom + b"b")]


def test_a_lone_byte_order_mark_is_a_blank_line():
    assert lines(b"\xef\xbb\xbf\n") == []


def test_a_line_over_the_limit_is_marked_and_those_after_it_are_whole():
    found = lines(b"1234", b"5678\nab\n", limit=5)
    assert found == [Line(1, b"12345", too_long=True), Line(2, b"ab")]


def test_a_line_of_exactly_the_limit_is_whole():
    assert lines(b"12345\n", limit=5) == [Line(1, b"12345")]


def test_memory_holds_one_line_not_the_stream():
    stream = (b"x" * 999 + b"\n" for _ in range(1000))
    assert sum(len(line.data) for line in numbered_lines(stream)) == 999_000
    endless = (b"y" * 1000 for _ in range(1000))
    assert [len(line.data) for line in numbered_lines(endless, max_line_bytes=10)] == [10]


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_how_a_stream_is_cut_changes_nothing(data, cuts):
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert lines(*pieces, limit=9) == lines(data, limit=9)


@given(st.lists(st.binary(max_size=8).filter(lambda b: b"\n" not in b), max_size=8))
def test_every_line_with_content_comes_with_its_own_number(parts):
    parts = [b"first", *parts]
    expected = [n for n, part in enumerate(parts, 1) if part.strip()]
    assert [line.number for line in lines(b"\n".join(parts))] == expected


def test_runs_of_empty_lines_are_counted_however_they_are_cut():
    assert lines(b"\n" * 5 + b"a\n\n", b"\n\nb\n\n\r\n\nc") == [
        Line(6, b"a"),
        Line(10, b"b"),
        Line(14, b"c"),
    ]

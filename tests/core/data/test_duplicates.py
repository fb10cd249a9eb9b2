"""Rows that are there twice are told, and keep no file from being trained on."""

import json
from random import Random

from core.data.check import check_rows
from core.data.digests import Digests, RowDigests, digest_of
from core.data.duplicates import Repeats, shared_rows
from core.data.parse import read_rows
from core.data.report import Place


def lines(*numbers):
    return [json.dumps({"text": f"text {n}"}).encode() + b"\n" for n in numbers]


def test_a_repeated_row_is_a_warning_with_both_lines():
    report = check_rows(lines(1, 2, 1, 3, 2, 1))
    assert (report.ok, report.duplicate_count) == (True, 3)
    assert [(w.line, w.code) for w in report.warnings] == [
        (3, "duplicate_row"),
        (5, "duplicate_row"),
        (6, "duplicate_row"),
    ]
    assert [w.message.rsplit(" ", 1)[1] for w in report.warnings] == ["1", "2", "1"]


def test_the_list_of_repeats_is_capped_and_the_count_is_not():
    report = check_rows(lines(*[1] * 40))
    assert (report.duplicate_count, len(report.warnings)) == (39, 10)


def test_neither_white_space_nor_the_order_of_keys_makes_another_row():
    rows = [b'{"prompt": "a", "completion": "b"}\n', b'{"completion":"b","prompt":"\\u0061"}\n']
    assert check_rows(rows).duplicate_count == 1
    assert check_rows([rows[0], b'{"prompt": "b", "completion": "a"}']).duplicate_count == 0


def test_rows_are_counted_by_shape():
    report = check_rows([*lines(1, 2), b'{"text": ""}\n', b"{\n"])
    assert (report.shapes, report.rows) == ({"text": 2}, 4)


def test_a_long_file_is_told_where_repeats_are_no_longer_looked_for():
    repeats = Repeats(Digests(limit=2))
    for line, text in enumerate("abcba", 1):
        repeats.see({"text": text}, Place(line))
    assert [(w.line, w.code) for w in repeats.warnings] == [
        (2, "duplicates_not_tracked"),
        (4, "duplicate_row"),
        (5, "duplicate_row"),
    ]


def digests(chunks):
    found = RowDigests()
    assert len(list(read_rows(chunks, digests=found))) == len(found)
    return found


def test_rows_of_the_validation_file_are_found_in_the_training_file():
    shared = shared_rows(digests(lines(1, 2, 3, 2)), digests([*lines(9, 2), b"\n", *lines(3)]))
    assert (shared.pairs, shared.count, shared.complete) == ([(2, 2), (3, 4), (4, 2)], 3, True)
    assert shared_rows(digests(lines(1, 2)), digests(lines(3))).count == 0


def test_more_validation_rows_than_are_remembered_are_told():
    shared = shared_rows(digests(lines(1, 2)), digests(lines(1, 2)), max_rows=1)
    assert (shared.count, shared.complete) == (1, False)


def test_digests_answer_as_a_dictionary_does():
    random = Random(0)
    digests, expected = Digests(), {}
    for line in range(1, 8000):
        digest = digest_of({"n": random.randrange(5000)})
        assert digests.find(digest) == expected.get(digest)
        assert digests.add(digest, line) == expected.get(digest)
        expected.setdefault(digest, line)
    assert digests.count == len(expected)

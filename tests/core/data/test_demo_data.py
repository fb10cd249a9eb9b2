"""The data that ships with the examples is what the service accepts."""

import json
from pathlib import Path

import pytest

from core.data.check import check_rows

FOLDER = Path(__file__).parents[3] / "examples" / "data"


def rows(part):
    text = (FOLDER / f"devils_dictionary.{part}.jsonl").read_text()
    return [json.loads(line)["messages"] for line in text.splitlines()]


@pytest.mark.parametrize(("part", "count"), [("train", 300), ("valid", 24)])
def test_the_demo_files_pass_the_check(part, count):
    report = check_rows([(FOLDER / f"devils_dictionary.{part}.jsonl").read_bytes()])
    assert report.ok, report.summary
    assert report.rows == count


def test_no_word_stands_in_both_files_or_twice():
    words = [messages[0]["content"] for part in ("train", "valid") for messages in rows(part)]
    assert len(set(words)) == len(words)


def test_every_answer_is_one_short_line_of_plain_prose():
    for messages in [*rows("train"), *rows("valid")]:
        assert [m["role"] for m in messages] == ["user", "assistant"]
        answer = messages[1]["content"]
        assert answer.isascii()
        assert 8 <= len(answer.split()) <= 45
        assert answer[-1] in ".!?"

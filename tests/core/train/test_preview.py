"""What the child that makes previews answers, and whose fault it says it is."""

import io
import json

import pytest

from core.train.preview import PreviewOrder, answer

ASK = {"role": "user", "content": "1 ?"}
ANSWER = {"role": "assistant", "content": "abab"}


@pytest.fixture
def say(toy_model):
    """The answer to an order about a file of these rows."""

    def do(*rows, **words):
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
        order = PreviewOrder.parse({"model": str(toy_model), **words})
        return answer(order, io.BytesIO(content))

    return do


def test_an_answer_is_plain_json(say):
    said = say({"messages": [ASK, ANSWER]})
    assert json.loads(json.dumps(said)) == said
    assert said["preview"]["sides"][0]["trained_tokens"] == 5


@pytest.mark.parametrize(
    ("row", "words", "code", "param"),
    [
        ({"messages": [ASK, ANSWER]}, {"line": 7}, "no_such_row", "line"),
        ({"messages": [ASK, ANSWER]}, {"objective": "dpo"}, "invalid_training_file", None),
        ({"messages": []}, {}, "invalid_training_file", None),
        ({"messages": [ANSWER]}, {}, "chat_template_error", None),
        ({"messages": [ASK, ANSWER]}, {"model": "/none"}, "model_not_trainable", "model"),
    ],
)
def test_what_cannot_be_shown_is_told_with_the_field_at_fault(say, row, words, code, param):
    error = say(row, **words)["error"]
    assert (error["code"], error["param"]) == (code, param or "training_file")
    assert error["message"]

"""A row of a file as the model sees it, over HTTP, through the real child process."""

import json

import pytest

ASK = {"role": "user", "content": "1 ?"}
ANSWER = {"role": "assistant", "content": "abab"}
CHAT = {"messages": [ASK, ANSWER]}
GRADER = {"type": "string_check", "input": "a", "reference": "b", "operation": "eq"}


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def ask(make_app, open_client, project, training_file):
    """Asks for a preview of a file with these bytes."""

    def post(content, app=None, **words):
        client = open_client(app or make_app(), project)
        body = {"model": "toy", "training_file": training_file(content), **words}
        return client.post("/v1/trainer/preview", json=body)

    return post


def test_a_row_is_shown_with_its_trained_tokens(ask):
    answer = ask(lines(CHAT, {"messages": [ASK, ASK, ANSWER]}), line=2)
    assert answer.status_code == 200, answer.text
    shown = answer.json()
    assert (shown["object"], shown["line"], shown["objective"]) == ("trainer.preview", 2, "sft")
    (side,) = shown["sides"]
    trained = [segment for segment in side["segments"] if segment["trained"]]
    assert [segment["text"] for segment in trained] == ["abab<|im_end|>"]
    assert len(trained[0]["input_ids"]) == side["trained_tokens"] == 5


def test_trainer_says_what_is_trained_and_method_what_is_learnt(ask):
    everything = {"objective": {"kind": "sft", "train_on": "all"}}
    (side,) = ask(lines(CHAT), trainer=everything).json()["sides"]
    assert side["trained_tokens"] == side["tokens"] - 1
    pair = {"prompt": "1 ?", "chosen": "ab", "rejected": "ba"}
    shown = ask(lines(pair), method={"type": "dpo"}).json()
    assert [side["name"] for side in shown["sides"]] == ["chosen", "rejected"]


@pytest.mark.parametrize(
    ("content", "words", "code", "param"),
    [
        (lines(CHAT), {"method": {"type": "dpo"}}, "invalid_training_file", "training_file"),
    ],
)
def test_what_cannot_be_shown_says_why(ask, content, words, code, param):
    answer = ask(content, **words)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, code, param)


@pytest.mark.parametrize(
    ("words", "status", "param"),
    [
        ({"model": "none"}, 404, "model"),
        ({"training_file": "file-none"}, 400, "training_file"),
        ({"line": 0}, 400, "line"),
        ({"suffix": "a"}, 400, "suffix"),
        ({"trainer": {"objective": {"kind": "sft", "beta": 1}}}, 400, "trainer.objective.beta"),
        (
            {"method": {"type": "dpo"}, "trainer": {"objective": {"kind": "sft"}}},
            400,
            "trainer.objective.kind",
        ),
    ],
)
def test_a_wrong_question_is_refused_by_its_name(ask, words, status, param):
    answer = ask(lines(CHAT), **words)
    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)


def test_a_file_of_another_project_does_not_exist(stranger, training_file):
    body = {"model": "tiny", "training_file": training_file(lines(CHAT))}
    error = stranger.post("/v1/trainer/preview", json=body).json()["error"]
    assert error["code"] == "file_not_found"


def test_a_preview_that_takes_too_long_is_given_up(ask, make_app):
    answer = ask(lines(CHAT), app=make_app(preview_limit_s=0.01))
    assert answer.json()["error"]["code"] == "preview_timed_out"


def test_no_more_of_a_file_is_sent_than_is_needed(ask):
    shown = ask(lines(CHAT) * 5_000)
    assert shown.json()["line"] == 1

"""Rows over the limit: each is kept, cut, dropped or refused as was asked, counted, and named by line."""

import json

import pytest

from core.data.chat import encode_chat
from core.data.parse import read_rows
from core.models.load import load_tokenizer
from core.spec.errors import ExitCode, RunFailure

CONTEXT = 40


@pytest.fixture
def lengths(training_path, chat_lines, toy_model):
    """Tokens of each row of a file in which rows 2, 5 and 8 are too long; of row 8 the prompt alone."""
    tokenizer = load_tokenizer(toy_model)

    def tokens(line):
        (row,) = read_rows([line])
        return len(encode_chat(row.value, tokenizer))

    lines = [line for line in chat_lines(40).splitlines(keepends=True) if tokens(line) <= CONTEXT]
    lines[1] = lines[4] = _row("q", "a" * 50)
    lines[7] = _row("q" * 60, "a")
    training_path.write_bytes(b"".join(lines[:9]))
    return [tokens(line) for line in lines[:9]]


def _row(question, answer):
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": turns}).encode() + b"\n"


@pytest.fixture
def run(train, make_spec, lengths):
    assert len(lengths) == 9

    def do(policy, context=CONTEXT):
        trainer = {"context_length": context, "on_overlength": policy, "max_steps": 1}
        return train(make_spec(trainer=trainer))

    return do


@pytest.mark.parametrize(
    ("policy", "kept", "truncated", "dropped", "without_target"),
    [("drop", 6, 0, 3, 0), ("truncate_right", 8, 3, 0, 1), ("truncate_left", 9, 3, 0, 0)],
)
def test_what_became_of_the_rows_is_told(run, policy, kept, truncated, dropped, without_target):
    ran = run(policy)
    (note,) = (event for event in ran.of("noted") if event.code == "rows.changed")
    assert (note.code, note.level) == ("rows.changed", "warn")
    assert note.data == {
        "param": "training_file",
        "kept": kept,
        "truncated": truncated,
        "split": 0,
        "dropped": dropped,
        "without_target": without_target,
    }
    assert ran.of("started")[0].rows == kept


def test_a_row_that_is_too_long_is_an_error_that_names_its_line(run, lengths):
    with pytest.raises(RunFailure) as failure:
        run("error")
    error = failure.value.error
    assert failure.value.exit_code is ExitCode.data
    assert (error.code, error.param, error.fault) == ("example_too_long", "training_file", "user")
    assert f"line 2 has {lengths[1]} tokens" in error.message
    assert str(CONTEXT) in error.message


def test_nothing_left_to_train_on_is_an_error_before_the_first_step(run, tmp_path):
    with pytest.raises(RunFailure) as failure:
        run("drop", context=10)
    assert failure.value.exit_code is ExitCode.data
    assert failure.value.error.code == "no_trainable_tokens"
    assert "9 dropped" in failure.value.error.message
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == b""


def test_rows_that_all_fit_are_not_worth_a_word(run, lengths):
    told = run("error", context=max(lengths)).of("noted")
    assert [event.code for event in told] == ["step.chosen"]

"""`castalia data`: what is wrong with a file, how long its rows are, and a row as the model sees it."""

import json

import pytest

ASK = {"role": "user", "content": "1 ?"}
ANSWER = {"role": "assistant", "content": "abab"}


@pytest.fixture
def rows(tmp_path):
    """Makes a file of these rows."""

    def make(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return make


@pytest.fixture
def chat(tmp_path, chat_lines):
    path = tmp_path / "chat.jsonl"
    path.write_bytes(chat_lines(20))
    return path


def test_a_good_file_is_counted(castalia, chat):
    said = castalia("data", "check", chat)
    assert said.code == 0, said.err
    assert "20 rows (20 chat), 0 problems, 0 duplicates" in said.out


def test_every_problem_is_told_with_its_line_and_remedy(castalia, rows):
    said = castalia("data", "check", rows({"messages": [ASK, ANSWER]}, {"messages": []}, {"a": 1}))
    assert said.code == 1
    assert "line 2 /messages" in said.out
    assert "line 3" in said.out
    assert "mend the rows above" in said.err


def test_a_model_gives_lengths_in_its_tokens(castalia, chat, toy_model):
    said = castalia("data", "check", chat, "--model", toy_model, "--context", 40)
    assert said.code == 0, said.err
    assert "32-63" in said.out
    assert "rows over the context of 40 tokens:" in said.out
    assert "rows with nothing to train on: none" in said.out


def test_the_models_context_is_the_usual_one(castalia, chat, toy_model):
    said = castalia("data", "check", chat, "--model", toy_model)
    assert "rows over the context of 512 tokens: none" in said.out


def test_a_row_is_shown_with_its_trained_part_marked(castalia, chat, toy_model):
    said = castalia("data", "preview", chat, "--model", toy_model, "--line", 3)
    assert said.code == 0, said.err
    assert "line 3: a chat row for the objective sft" in said.out
    marked = [line for line in said.out.splitlines() if "trained" in line and "<|im_end|>" in line]
    assert marked
    assert "ababab<|im_end|>" in marked[0]


def test_both_sides_of_a_preference_are_shown(castalia, rows, toy_model):
    file = rows({"prompt": "1 ?", "chosen": "ab", "rejected": "ba"})
    said = castalia("data", "preview", file, "--model", toy_model)
    assert "chosen:" in said.out
    assert "rejected:" in said.out


def test_what_could_steer_a_terminal_is_escaped_and_markup_is_text(castalia, rows, toy_model):
    said = castalia("data", "preview", rows({"text": "x[red]\x1b[31m"}), "--model", toy_model)
    assert "[red]\\x1b[31m" in said.out
    assert "\x1b" not in said.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--line", 9), "no row at line 9"),
        (("--objective", "dpo"), "learns from preferences"),
    ],
)
def test_what_cannot_be_shown_is_one_line(castalia, rows, toy_model, words, reason):
    file = rows({"messages": [ASK, ANSWER]})
    said = castalia("data", "preview", file, "--model", toy_model, *words)
    assert said.code == 1
    assert reason in said.err
    assert said.err.count("\n") == 1


def test_no_file_and_no_model_are_told(castalia, chat, tmp_path):
    assert "there is no file" in castalia("data", "check", tmp_path / "none").err
    said = castalia("data", "preview", chat, "--model", tmp_path)
    assert said.code == 1
    assert "cannot be loaded" in said.err

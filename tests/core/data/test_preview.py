"""A preview shows exactly the tokens that are encoded, marked as they are trained."""

import json

import pytest

from core.data.chat import encode_chat
from core.data.fitness import UnfitRowError
from core.data.parse import RowError
from core.data.preview import EDGE_SEGMENTS, EDGE_TOKENS, NoRowError, preview, row_at

ASK = {"role": "user", "content": "why?"}
YES, NO = ({"role": "assistant", "content": said} for said in ("because.", "no."))
CHAT = {"messages": [ASK, YES]}
PREFERENCE = {"input": {"messages": [ASK]}, "preferred_output": [YES], "non_preferred_output": [NO]}
PROMPT = {"messages": [ASK], "answer": "42"}


def file(*rows):
    return [b"\n".join(json.dumps(row).encode() for row in rows)]


@pytest.fixture
def show(make_tokenizer):
    return lambda row, **words: preview(row_at(file(row)), make_tokenizer(), **words)


def texts(side, trained):
    return [segment.text for segment in side.segments if segment.trained is trained]


def test_a_chat_row_is_told_apart_into_what_is_read_and_what_is_learnt(show, make_tokenizer):
    shown = show(CHAT)
    (side,) = shown.sides
    assert texts(side, trained=True) == ["because.<|im_end|>"]
    assert texts(side, trained=False)[0].endswith("<|im_start|>assistant\n")
    encoded = encode_chat(row_at(file(CHAT)).value, make_tokenizer())
    assert [i for segment in side.segments for i in segment.input_ids] == encoded.input_ids
    assert (side.tokens, side.trained_tokens) == (len(encoded), encoded.targets)
    assert (shown.objective, shown.shape, shown.line, shown.item) == ("sft", "chat", 1, None)


def test_all_turns_are_marked_where_all_are_learnt(show):
    (side,) = show(CHAT, train_on="all").sides
    assert side.trained_tokens == side.tokens - 1


def test_a_preference_shows_both_sides_after_one_prompt(show):
    chosen, rejected = show(PREFERENCE).sides
    assert (chosen.name, rejected.name) == ("chosen", "rejected")
    assert texts(chosen, trained=True) == ["because.<|im_end|>"]
    assert texts(rejected, trained=True) == ["no.<|im_end|>"]
    assert chosen.segments[0] == rejected.segments[0]


def test_a_prompt_waits_for_its_answer_and_shows_what_graders_know(show):
    shown = show(PROMPT)
    (side,) = shown.sides
    assert (side.name, side.trained_tokens) == ("prompt", 0)
    assert side.segments[0].text.endswith("<|im_start|>assistant\n")
    assert (shown.objective, shown.item) == ("grpo", {"answer": "42"})


@pytest.mark.parametrize(
    ("row", "ids"), [({"text": "abc"}, 4), ({"input_ids": [3, 4, 5], "labels": [-100, -100, 5]}, 3)]
)
def test_text_and_ready_tokens_are_shown(show, row, ids):
    (side,) = show(row).sides
    assert side.tokens == ids


def test_an_objective_that_cannot_learn_from_the_row_is_refused(show):
    words = r"line 1 holds conversations.*'chat'.*'dpo'\) learns from preferences.*'supervised'"
    with pytest.raises(UnfitRowError, match=words):
        show(CHAT, objective="dpo")


def test_a_long_stretch_is_shown_by_its_ends(show):
    (side,) = show({"text": "a" * 5000}, objective="pretrain").sides
    head, gap, tail = side.segments[1:]
    assert len(head.input_ids) == len(tail.input_ids) == EDGE_TOKENS
    assert (gap.text, gap.trained) == ("", True)
    assert sum(len(s.input_ids) + s.omitted for s in side.segments) == side.tokens == 5001


def test_many_turns_are_shown_by_the_first_and_the_last(show):
    (side,) = show({"messages": [ASK, YES] * (EDGE_SEGMENTS + 5)}).sides
    assert len(side.segments) == 2 * EDGE_SEGMENTS + 1
    assert side.segments[EDGE_SEGMENTS].trained is None
    assert sum(len(s.input_ids) + s.omitted for s in side.segments) == side.tokens


def test_a_row_is_found_by_its_line_whatever_stands_around_it():
    chunks = [b"[\n\n", *file(CHAT), b"\n{}\n", *file(CHAT)]
    assert row_at(chunks, 3).line == 3
    assert row_at(chunks, 5).line == 5


def test_a_faulty_row_is_told_and_one_that_is_not_there_too():
    chunks = file(CHAT, {"messages": []})
    with pytest.raises(RowError, match="line 2"):
        row_at(chunks, 2)
    with pytest.raises(NoRowError, match=r"no row at line 9; its last row is at line 2"):
        row_at(chunks, 9)
    with pytest.raises(NoRowError, match="no row"):
        row_at([b"\n"])

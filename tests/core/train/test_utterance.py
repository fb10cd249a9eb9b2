"""Text is said as soon as it is certain: whole characters, and nothing of a stop string."""

import pytest
from transformers import AutoTokenizer

from core.train.utterance import Utterance


@pytest.fixture(scope="module")
def tokenizer(toy_model):
    return AutoTokenizer.from_pretrained(toy_model)


@pytest.fixture
def spoken(tokenizer):
    """What an utterance says at each token of a text, and at its end."""

    def speak(text, stops=()):
        utterance = Utterance(tokenizer, stops)
        said = []
        for token in tokenizer(text, add_special_tokens=False)["input_ids"]:
            said.append(utterance.add(token))
            if utterance.stopped:
                break
        return [*said, utterance.end()], utterance.stopped

    return speak


def test_every_token_is_said_at_once(spoken):
    assert spoken("ab c") == (["a", "b", " ", "c", ""], False)


def test_a_character_of_several_tokens_is_said_when_it_is_whole(spoken):
    assert spoken("a€b")[0] == ["a", "", "", "€", "b", ""]


def test_half_a_character_at_the_end_is_not_swallowed(tokenizer):
    utterance = Utterance(tokenizer, ())
    for token in tokenizer("€", add_special_tokens=False)["input_ids"][:2]:
        assert utterance.add(token) == ""
    assert set(utterance.end()) == {"\ufffd"}


@pytest.mark.parametrize("stops", [["END"], ["xyz", "END"], ["ENDING", "END"]])
def test_it_ends_before_the_first_stop_string_and_says_nothing_of_it(spoken, stops):
    said, stopped = spoken("one END two", stops)
    assert ("".join(said), stopped) == ("one ", True)


def test_the_beginning_of_a_stop_string_that_does_not_come_is_said_after_all(spoken):
    said, stopped = spoken("an ENTRY EN", ["END"])
    assert ("".join(said), stopped) == ("an ENTRY EN", False)
    assert said[-1] == "EN"

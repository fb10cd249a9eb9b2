"""An answer ends where the tokenizer, the model's settings or the chat template end one."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from core.rollout import stop_ids

SPECIAL = ["<pad>", "<eos>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
)


@pytest.fixture
def tokenizer():
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *letters])}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")


@pytest.mark.parametrize(
    ("named", "also"), [(None, set()), (5, {5}), ([5, 6, 5], {5, 6}), ([1], set())]
)
def test_the_models_settings_name_one_several_or_none(named, also, tiny, tokenizer):
    model = tiny("llama")
    model.generation_config.eos_token_id = named
    assert stop_ids(model, tokenizer) == {1} | also


def test_the_template_ends_a_turn_with_a_token_of_its_own(tiny, tokenizer):
    model = tiny("llama")
    model.generation_config.eos_token_id = None
    tokenizer.chat_template = CHATML
    assert stop_ids(model, tokenizer) == {1, 3}


def test_words_that_follow_an_answer_in_the_template_stop_nothing(tiny, tokenizer):
    model = tiny("llama")
    model.generation_config.eos_token_id = None
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n\nNext: {% endfor %}"
    assert stop_ids(model, tokenizer) == {1}

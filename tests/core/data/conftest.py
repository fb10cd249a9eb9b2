"""Tokenizers made on the spot: byte-level, with a few chat tokens, for any template."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'] }}<|im_end|>{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<s>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture
def make_tokenizer():
    """A tokenizer with this template; with `prepends_bos` it puts <s> before every text."""

    def make(template=CHATML, *, prepends_bos=False, merges=()):
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        joined = [a + b for a, b in merges]
        vocabulary = {t: i for i, t in enumerate([*SPECIAL, *letters, *joined])}
        inner = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        inner.decoder = decoders.ByteLevel()
        inner.add_special_tokens(SPECIAL)
        if prepends_bos:
            inner.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", 0)]
            )
        return PreTrainedTokenizerFast(
            tokenizer_object=inner,
            bos_token="<s>",
            eos_token="<|im_end|>",
            pad_token="<|im_end|>",
            chat_template=template,
        )

    return make

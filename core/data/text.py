"""A document of plain text, or a row of ready token ids, as a row to train on.

A document is the tokenizer's own encoding of it, and ends with the end-of-sequence token, so that the
model learns where documents end. Every token but the first is a target.
"""

from core.data.conversation import ChatTokenizer
from core.data.encoded import Encoded
from core.data.kinds import Document, Tokens


def encode_document(document: Document, tokenizer: ChatTokenizer, *, line: int = 0) -> Encoded:
    """Token ids of a document: with the beginning-of-sequence token if the tokenizer puts one there."""
    ids = list(tokenizer(document.text)["input_ids"])
    eos = tokenizer.eos_token_id
    if eos is not None and ids[-1:] != [eos]:
        ids.append(eos)
    return Encoded(ids, [False, *[True] * (len(ids) - 1)], line)


def encode_tokens(tokens: Tokens, *, line: int = 0) -> Encoded:
    """The row as it is."""
    return Encoded(tokens.input_ids, tokens.trained, line)

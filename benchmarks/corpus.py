"""The text that `benchmarks.quality` trains on, as rows of tokens; how it came here, benchmarks/data tells.

Every twentieth chapter is kept for validation. The tokenizer is a byte-level BPE made of the other
chapters. Each part is one stream of tokens, chapters ended by a mark, cut into rows without overlap.

Axes: R rows, T tokens of a row.
"""

import functools
import gzip
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

TEXT = Path(__file__).parent / "data" / "kjv.txt.gz"
VALIDATION_EVERY = 20
END = "<end>"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Rows to train on and rows to measure."""

    train_RT: Tensor
    validation_RT: Tensor


@functools.cache
def corpus(vocabulary: int, row_tokens: int) -> Corpus:
    """Tokenise the text; the same every time."""
    chapters = gzip.decompress(TEXT.read_bytes()).decode().split("\n\n")
    held_out = chapters[::VALIDATION_EVERY]
    train = [chapter for i, chapter in enumerate(chapters) if i % VALIDATION_EVERY]
    tokenizer = _tokenizer(train, vocabulary)
    return Corpus(_rows(tokenizer, train, row_tokens), _rows(tokenizer, held_out, row_tokens))


def _tokenizer(chapters: list[str], vocabulary: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chapters, trainer)
    return tokenizer


def _rows(tokenizer: Tokenizer, chapters: list[str], row_tokens: int) -> Tensor:
    end = tokenizer.token_to_id(END)
    stream = [id for found in tokenizer.encode_batch(chapters) for id in (*found.ids, end)]
    whole = len(stream) // row_tokens * row_tokens
    return torch.tensor(stream[:whole]).view(-1, row_tokens)

"""What every token may see, as data: spans of keys instead of a T x T mask.

Packed documents do not see each other; the answers to one prompt see the prompt, which is computed
once, and not each other. Padding on the right needs no mask in a causal model: it belongs to its
row's last segment, and is not scored.

Legend: B rows, T tokens of a row.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import torch
from torch import Tensor

from core.streambp.errors import LayoutError
from core.streambp.pieces import Piece, Segment, Span


@dataclass(frozen=True, slots=True)
class Shared:
    """A prompt of `prompt_tokens`, then the answers to it, one after the other."""

    prompt_tokens: int
    answer_tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """`segments[b]` are the segments of row b, in order; the last one takes in the padding.

    `real[b]` counts the tokens of row b that are not padding. Build with `causal`, `packed` or
    `shared_prefix`.
    """

    segments: tuple[tuple[Segment, ...], ...]
    real: tuple[int, ...]
    tokens: int

    @staticmethod
    def causal(lengths: Sequence[int], tokens: int) -> "Layout":
        """One document a row: `lengths[b]` real tokens, padded on the right to `tokens`."""
        return Layout.packed([[length] for length in lengths], tokens)

    @staticmethod
    def shared_prefix(prompt_tokens: int, answer_tokens: Sequence[int], tokens: int) -> "Layout":
        """One row: a prompt, answers of lengths `answer_tokens`, padding up to `tokens`.

        Every answer sees the prompt and itself. For several rows, or several prompts in a row,
        give `packed` a `Shared` for each prompt. Score answers with `answer_logps`.
        """
        return Layout.packed([[Shared(prompt_tokens, tuple(answer_tokens))]], tokens)

    @staticmethod
    def packed(documents: Sequence[Sequence[int | Shared]], tokens: int) -> "Layout":
        """Row b holds `documents[b]`, lengths or prompts with answers, in order, then padding.

        A token sees only its own document, where positions count from 0. A row that is padded on
        the left is a row whose first document is the padding. Raises LayoutError.
        """
        if not documents:
            raise LayoutError("documents", documents, "give at least one row")
        for row, lengths in enumerate(documents):
            _check_row(row, lengths, tokens)
        real = tuple(sum(p + sum(a) for p, a in _lengths(row)) for row in documents)
        return Layout(tuple(_segments(row, tokens) for row in documents), real, tokens)

    @property
    def is_plain(self) -> bool:
        """Say whether every row is one document: no boundary has to be kept."""
        return all(len(segments) == 1 for segments in self.segments)

    def check_covers(self, rows: int, tokens: int) -> None:
        """Raise LayoutError unless this layout describes a batch of `rows` x `tokens`."""
        if (len(self.segments), self.tokens) != (rows, tokens):
            raise LayoutError(
                "layout",
                (len(self.segments), self.tokens),
                f"describe the whole batch: it has {rows} rows of {tokens} tokens",
            )

    def position_ids(self) -> Tensor:
        """Count positions within the document, int64 of shape (B, T), on the CPU."""
        return self._table(lambda s: torch.arange(s.stop - s.start) + s.position)

    def predictors(self) -> Tensor:
        """Tell which token's hidden state predicts each token, int64 of shape (B, T), on the CPU.

        That is the token before it; for the first of an answer the last of its prompt; for the
        first of a document none: -1.
        """

        def before(segment: Segment) -> Tensor:
            index = torch.arange(segment.start - 1, segment.stop - 1)
            index[0] = segment.prefix[-1].stop - 1 if segment.prefix else -1
            return index

        return self._table(before)

    def _table(self, of_segment: Callable[[Segment], Tensor]) -> Tensor:
        return torch.stack([torch.cat([of_segment(s) for s in row]) for row in self.segments])

    def pieces(self, start: int, stop: int, window: int | None = None) -> tuple[Piece, ...]:
        """Cut the chunk `start:stop` into pieces: row by row, and in each row in order.

        `window` drops keys that no query of a piece can see. Rows that look alike share pieces.
        """
        pieces: list[Piece] = []
        for segments, group in groupby(range(len(self.segments)), self.segments.__getitem__):
            rows = list(group)
            for segment in segments:
                pieces += segment.pieces((rows[0], rows[-1] + 1), (start, stop), window)
        return tuple(pieces)


def chunks(tokens: int, length: int, least: int = 1) -> list[tuple[int, int]]:
    """Cut into chunks of `length`, as half-open bounds that cover `tokens`, in order.

    No chunk is shorter than `least` where there are as many tokens: a shorter rest goes with the
    chunk before it.
    """
    length = max(length, least)
    starts = list(range(0, tokens, length))
    if len(starts) > 1 and tokens - starts[-1] < least:
        starts.pop()
    return list(pairwise([*starts, tokens])) if starts else []


def _lengths(documents: Sequence[int | Shared]) -> list[tuple[int, tuple[int, ...]]]:
    """Give each document as a prompt's length and its answers' lengths."""
    return [
        (d.prompt_tokens, d.answer_tokens) if isinstance(d, Shared) else (d, ()) for d in documents
    ]


def _segments(documents: Sequence[int | Shared], tokens: int) -> tuple[Segment, ...]:
    *segments, last = _laid_out(documents)
    return (*segments, Segment(last.start, tokens, last.prefix))


def _laid_out(documents: Sequence[int | Shared]) -> Iterator[Segment]:
    start = 0
    for prompt, answers in _lengths(documents):
        prefix = Span(start, start + prompt, 0)
        yield Segment(start, prefix.stop)
        start = prefix.stop
        for answer in answers:
            yield Segment(start, start + answer, (prefix,))
            start += answer


def _check_row(row: int, documents: Sequence[int | Shared], tokens: int) -> None:
    field = f"lengths of row {row}"
    if any(isinstance(document, Shared) and not document.answer_tokens for document in documents):
        raise LayoutError(field, list(documents), "a shared prompt has an answer or more")
    parts = [n for prompt, answers in _lengths(documents) for n in (prompt, *answers)]
    if not parts or any(isinstance(n, bool) or not isinstance(n, int) for n in parts):
        raise LayoutError(field, list(documents), "give whole numbers")
    if min(parts) < 1:
        raise LayoutError(field, list(documents), "a document has a token or more")
    if sum(parts) > tokens:
        raise LayoutError(field, list(documents), f"the row has only {tokens} tokens in all")

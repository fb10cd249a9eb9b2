"""Encoded rows of every kind as flat columns, and back.

The one idea: a row is a few *parts*, each with token ids, a mark for every token, and a line:

    encoded   the row itself
    packed    the rows that stand in it
    pair      the prompt, the chosen answer, the rejected one
    prompt    the prompt; beside it what graders may know, as JSON

so four columns over all parts and one over all rows hold a file, at 4 bytes and a bit a token.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from core.data.branches import Answer
from core.data.encoded import Encoded
from core.data.pack import Packed
from core.data.pair import EncodedPair
from core.data.prompts import EncodedPrompt

Row = Encoded | Packed | EncodedPair | EncodedPrompt
Part = tuple[list[int], list[bool], int]
Columns = dict[str, np.ndarray]
"""`ids` and `marks` over tokens, `tokens` and `lines` over parts, `parts` over rows."""

_KINDS: dict[type, str] = {
    Encoded: "encoded",
    Packed: "packed",
    EncodedPair: "pair",
    EncodedPrompt: "prompt",
}


def flatten(rows: Sequence[Row]) -> tuple[Columns, dict[str, Any]]:
    """Columns, and what else the rows are, fit for JSON. All rows are of one kind; there are some."""
    kind = _KINDS[type(rows[0])]
    grouped = [_parts_of(row) for row in rows]
    parts = list(chain.from_iterable(grouped))
    columns = {
        "ids": _ids(chain.from_iterable(ids for ids, _, _ in parts)),
        "marks": np.packbits(np.fromiter(chain.from_iterable(m for _, m, _ in parts), np.bool_)),
        "tokens": _numbers(len(ids) for ids, _, _ in parts),
        "lines": _numbers(line for _, _, line in parts),
        "parts": _numbers(map(len, grouped)),
    }
    extras = [(row.answers_tokens, row.item) for row in rows if isinstance(row, EncodedPrompt)]
    return columns, {"kind": kind, "extras": extras}


def unflatten(columns: Columns, words: dict[str, Any]) -> list[Row]:
    """The rows of which `flatten` made this. Raises KeyError, TypeError or ValueError where it did not."""
    parts = _parts(columns)
    grouped = [[next(parts) for _ in range(count)] for count in columns["parts"].tolist()]
    kind = words["kind"]
    if kind == "prompt":
        pairs = zip(grouped, words["extras"], strict=True)
        return [EncodedPrompt(ids, most, item, line) for ((ids, _, line),), (most, item) in pairs]
    return [_row(kind, group) for group in grouped]


def _parts_of(row: Row) -> list[Part]:
    match row:
        case Encoded():
            return [(row.input_ids, row.trained, row.line)]
        case Packed():
            return [(part.input_ids, part.trained, part.line) for part in row.parts]
        case EncodedPair():
            answers = [(answer.input_ids, answer.scored, row.line) for answer in row.answers]
            return [(row.prompt_ids, [False] * len(row.prompt_ids), row.line), *answers]
        case EncodedPrompt():
            return [(row.input_ids, [False] * len(row.input_ids), row.line)]


def _row(kind: str, parts: list[Part]) -> Row:
    if kind == "packed":
        return Packed(tuple(Encoded(*part) for part in parts))
    if kind == "pair":
        (prompt, _, line), *answers = parts
        chosen, rejected = (Answer(ids, marks) for ids, marks, _ in answers)
        return EncodedPair(prompt, chosen, rejected, line)
    if kind == "encoded":
        (part,) = parts
        return Encoded(*part)
    raise ValueError(f"no rows are {kind}")


def _parts(columns: Columns) -> Iterator[Part]:
    ids = columns["ids"].tolist()
    marks = np.unpackbits(columns["marks"], count=len(ids)).astype(np.bool_).tolist()
    start = 0
    for tokens, line in zip(columns["tokens"].tolist(), columns["lines"].tolist(), strict=True):
        yield ids[start : start + tokens], marks[start : start + tokens], line
        start += tokens


def _numbers(values: Iterable[int]) -> np.ndarray:
    return np.fromiter(values, np.int64)


def _ids(values: Iterable[int]) -> np.ndarray:
    """As 4 bytes each, unless a file of ready tokens holds larger numbers."""
    ids = _numbers(values)
    return ids.astype(np.int32) if ids.max(initial=0) <= np.iinfo(np.int32).max else ids

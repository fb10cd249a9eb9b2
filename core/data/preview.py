"""What a model is shown of one row, and which of its tokens are learnt, for a person to look at.

A long stretch is shown by its two ends; how many tokens are left out between them is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from core.data.chat import TrainOn
from core.data.conversation import ChatTokenizer
from core.data.encoded import Encoded
from core.data.fault import FileRefusal
from core.data.fitness import Objective
from core.data.kinds import Prompt
from core.data.parse import ParsedRow, RowError, RowReader
from core.data.records import records
from core.data.report import Place, Shape
from core.data.sides import Side, SideName, sides_of, usual_objective

EDGE_TOKENS = 256
EDGE_SEGMENTS = 200


class PreviewTokenizer(ChatTokenizer, Protocol):
    """A tokenizer that can also go back from ids to text."""

    def decode(self, token_ids: Any, **kwargs: Any) -> Any:
        """Return the text of ids, special tokens among it."""


class NoRowError(LookupError):
    """A file has no row at the line that was asked for."""

    def __init__(self, line: int | None, last: int) -> None:
        place = "no row" if line is None else f"no row at line {line}"
        end = f"; its last row is at line {last}" if last else ""
        super().__init__(f"the file has {place}{end}")


@dataclass(frozen=True, slots=True)
class Segment:
    """Neighbouring tokens that are all trained, or all not.

    ``trained`` is None where ``omitted`` tokens, more than that many, are left out and differ.
    """

    text: str
    input_ids: list[int]
    trained: bool | None
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class ShownSide:
    """One row of tokens: how many there are, how many are trained, and the segments that make it up."""

    name: SideName
    tokens: int
    trained_tokens: int
    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class Preview:
    """One row; ``item`` is what graders may know of it."""

    line: int
    shape: Shape
    objective: Objective
    sides: list[ShownSide]
    item: dict[str, Any] | None


def row_at(chunks: Iterable[bytes], line: int | None = None) -> ParsedRow:
    """The row at a physical line (of a Parquet file: the row) from 1; None: the first.

    Faulty rows elsewhere are no hindrance. Raises NoRowError, and RowError if it is faulty itself.
    """
    reader, last = RowReader(), 0
    try:
        for record in records(chunks):
            number = record.place.number
            if line is not None and number > line:
                break
            last = number
            wanted = line in (None, number)
            if not wanted and reader.shape is not None:
                continue  # the first row gave the file's shape; nothing else is needed of the others
            try:
                row = reader.read(record)
            except RowError:
                if wanted:
                    raise
                continue
            if wanted:
                return row
    except FileRefusal as refusal:
        raise RowError.at(Place(0), refusal.faults) from refusal
    raise NoRowError(line, last)


def preview(
    row: ParsedRow,
    tokenizer: PreviewTokenizer,
    *,
    objective: Objective | None = None,
    train_on: TrainOn = "assistant",
) -> Preview:
    """A row as its objective sees it. Raises UnfitRowError and ChatTemplateError."""
    sides = sides_of(row, tokenizer, objective=objective, train_on=train_on)
    return Preview(
        line=row.line,
        shape=row.shape,
        objective=objective or usual_objective(row),
        sides=[_shown(side, tokenizer) for side in sides],
        item=row.value.item if isinstance(row.value, Prompt) else None,
    )


def _shown(side: Side, tokenizer: PreviewTokenizer) -> ShownSide:
    row = side.encoded
    runs = list(pairwise(_borders(row.trained)))
    segments: list[Segment] = []
    if len(runs) > 2 * EDGE_SEGMENTS:
        start, end = runs[EDGE_SEGMENTS][0], runs[-EDGE_SEGMENTS][0]
        for run in runs[:EDGE_SEGMENTS]:
            segments += _cut(row, *run, tokenizer)
        segments.append(Segment("", [], None, end - start))
        runs = runs[-EDGE_SEGMENTS:]
    for run in runs:
        segments += _cut(row, *run, tokenizer)
    return ShownSide(side.name, len(row), row.targets, segments)


def _borders(trained: Sequence[bool]) -> list[int]:
    """Where a stretch begins, and the end of the last one."""
    changes = [t for t in range(1, len(trained)) if trained[t] != trained[t - 1]]
    return [0, *changes, len(trained)] if trained else []


def _cut(row: Encoded, start: int, end: int, tokenizer: PreviewTokenizer) -> list[Segment]:
    """One stretch, or its two ends and the gap between them."""
    trained = row.trained[start]

    def segment(ids: list[int]) -> Segment:
        return Segment(str(tokenizer.decode(ids)), ids, trained)

    left_out = end - start - 2 * EDGE_TOKENS
    if left_out <= 0:
        return [segment(row.input_ids[start:end])]
    return [
        segment(row.input_ids[start : start + EDGE_TOKENS]),
        Segment("", [], trained, left_out),
        segment(row.input_ids[end - EDGE_TOKENS : end]),
    ]

"""Rows longer than the context: an error, dropped, or cut, and always counted.

The one idea: nothing is shortened in silence. Every row ends in exactly one of kept, dropped and
without_target; a row that has no target left after the cut would be a step that learns nothing,
so it is counted and not trained.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, assert_never

from core.data.encoded import Encoded

Policy = Literal["error", "drop", "truncate_left", "truncate_right", "split"]

# A target and one token before it to predict it from.
MIN_CONTEXT = 2
_CUTS = "drop, truncate_left, truncate_right or split"


class Counted(Protocol):
    """What can be counted as kept."""

    def __len__(self) -> int:
        """Count its tokens."""
        ...

    @property
    def targets(self) -> int:
        """How many of them are trained."""
        ...


class OverlengthError(ValueError):
    """A row is longer than the context and the policy is `error`; `cuts`: what may be chosen instead."""

    def __init__(self, row: Encoded, context_length: int, cuts: str = _CUTS) -> None:
        place = f"line {row.line}" if row.line else "a row"
        super().__init__(
            f"{place} has {len(row)} tokens, context_length is {context_length}. "
            f"Raise context_length, or set on_overlength to {cuts}."
        )
        self.line = row.line
        self.tokens = len(row)
        self.context_length = context_length


class PromptTooLongError(OverlengthError):
    """A prompt leaves too little of the context for an answer of full length."""

    def __init__(self, line: int, tokens: int, room: int) -> None:
        ValueError.__init__(
            self,
            f"line {line} has a prompt of {tokens} tokens, and context_length leaves {room} beside an answer "
            "of max_completion_tokens. Raise context_length, lower max_completion_tokens, or set "
            "on_overlength to drop or truncate_left.",
        )
        self.line, self.tokens, self.context_length = line, tokens, room


class NothingToTrainError(ValueError):
    """No row is left that has a token to train on."""

    def __init__(self, report: "LengthReport", context_length: int) -> None:
        super().__init__(
            f"no row has anything to train on within context_length {context_length}: "
            f"{report.dropped} dropped, {report.without_target} without a trained token "
            f"({report.truncated} truncated). Raise context_length, or change on_overlength."
        )
        self.report = report


@dataclass(frozen=True, slots=True)
class LengthReport:
    """What became of the rows: kept + dropped + without_target is all of them and of their pieces.

    `truncated` counts the rows that were cut, whether or not a target was left in them; `split` those
    that became several. `tokens`, `targets` and `longest` (in tokens) are of what was kept.
    """

    kept: int = 0
    dropped: int = 0
    truncated: int = 0
    split: int = 0
    without_target: int = 0
    tokens: int = 0
    targets: int = 0
    longest: int = 0

    def with_kept(self, row: Counted) -> "LengthReport":
        """Return this report with one more kept row."""
        return replace(
            self,
            kept=self.kept + 1,
            tokens=self.tokens + len(row),
            targets=self.targets + row.targets,
            longest=max(self.longest, len(row)),
        )


def fit(
    rows: Iterable[Encoded], context_length: int, policy: Policy
) -> tuple[list[Encoded], LengthReport]:
    """Return the rows to train on, none longer than `context_length` tokens, and the counts.

    Raises OverlengthError at the first long row under the policy `error`, and
    NothingToTrainError when no row with a target is left.
    """
    if context_length < MIN_CONTEXT:
        raise ValueError(f"context_length is {context_length}; the least is {MIN_CONTEXT}")
    kept: list[Encoded] = []
    report = LengthReport()
    for whole in rows:
        pieces = [whole]
        if len(whole) > context_length:
            pieces = shorten(whole, context_length, policy)
            report = _with_long(report, len(pieces))
        for row in pieces:
            if row.targets:
                kept.append(row)
                report = report.with_kept(row)
            else:
                report = replace(report, without_target=report.without_target + 1)
    if not kept:
        raise NothingToTrainError(report, context_length)
    return kept, report


def _with_long(report: LengthReport, pieces: int) -> LengthReport:
    """Count a row that was too long and became so many."""
    if pieces == 0:
        return replace(report, dropped=report.dropped + 1)
    if pieces == 1:
        return replace(report, truncated=report.truncated + 1)
    return replace(report, split=report.split + 1)


def shorten(row: Encoded, context_length: int, policy: Policy) -> list[Encoded]:
    """Cut a row that is too long by the policy; none where it is to be dropped.

    `truncate_left` keeps the last tokens (so the beginning-of-sequence token goes), and its new
    first token is no target; `truncate_right` keeps the first tokens. `split` keeps all: each piece begins
    with the last token of the one before, which is a target there, so every target stays one, once.
    """
    ids, trained, line = row.input_ids, row.trained, row.line
    match policy:
        case "error":
            raise OverlengthError(row, context_length)
        case "drop":
            return []
        case "truncate_left":
            marks = [False, *trained[-context_length + 1 :]]
            return [Encoded(ids[-context_length:], marks, line)]
        case "truncate_right":
            return [Encoded(ids[:context_length], trained[:context_length], line)]
        case "split":
            starts = range(0, len(row) - 1, context_length - 1)
            return [
                Encoded(ids[i : i + context_length], _opened(trained[i : i + context_length]), line)
                for i in starts
            ]
        case _:
            assert_never(policy)


def _opened(trained: list[bool]) -> list[bool]:
    return [False, *trained[1:]]

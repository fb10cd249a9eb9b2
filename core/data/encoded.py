"""A row as the model sees it: token ids, and which of them are targets.

The one idea: what is trained and what is padding are masks and lengths from the beginning to the
end. No id ever means "ignore": many models pad with their end-of-sequence token, and a mask made
from ids would then unlearn the end of every answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Encoded:
    """One row: `trained[t]` says that token t is a target, to be predicted from tokens before t.

    Token 0 has nothing before it and is never a target. `line` is the line of the file that the
    row came from (0: none), for messages.
    """

    input_ids: list[int]
    trained: list[bool]
    line: int = 0

    def __post_init__(self) -> None:
        if len(self.input_ids) != len(self.trained):
            raise ValueError(f"{len(self.input_ids)} ids but {len(self.trained)} marks")
        if self.trained and self.trained[0]:
            raise ValueError("token 0 cannot be a target: nothing comes before it")

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def targets(self) -> int:
        """Number of tokens that are trained."""
        return sum(self.trained)

    @property
    def documents(self) -> list[int]:
        """Lengths of the documents in it: itself."""
        return [len(self)]

    @property
    def lines(self) -> list[int]:
        """Lines of the file that it came from."""
        return [self.line]


class Row(Protocol):
    """What goes through a model as one row: an `Encoded`, or several packed into one."""

    def __len__(self) -> int:
        """Count its tokens."""
        ...

    @property
    def input_ids(self) -> list[int]:
        """Its tokens."""
        ...

    @property
    def trained(self) -> list[bool]:
        """Which of them are targets."""
        ...

    @property
    def targets(self) -> int:
        """How many."""
        ...

    @property
    def documents(self) -> list[int]:
        """Lengths of its documents, none of which sees another."""
        ...

    @property
    def lines(self) -> list[int]:
        """Lines of the file that they came from."""
        ...


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows of one length: ids, targets, and which places hold real tokens, each [B][T]."""

    input_ids: list[list[int]]
    trained: list[list[bool]]
    real: list[list[bool]]


def right_pad(rows: Sequence[Row], pad_id: int) -> Padded:
    """Pad rows on the right to the longest; padding is not real and never a target."""
    longest = max((len(row) for row in rows), default=0)
    gaps = [longest - len(row) for row in rows]
    return Padded(
        [row.input_ids + [pad_id] * gap for row, gap in zip(rows, gaps, strict=True)],
        [row.trained + [False] * gap for row, gap in zip(rows, gaps, strict=True)],
        [[True] * len(row) + [False] * gap for row, gap in zip(rows, gaps, strict=True)],
    )

"""A step's rows, split into passes that fit, as tensors.

Rows of like length go together and are padded on the right; a causal model never looks there, so padding
needs no mask. Documents packed into one row do not see each other: the layout says where each ends. What
the passes add up to does not depend on how they were cut.

Legend: B batch, T tokens.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from core.data.encoded import Row, right_pad
from core.ranks import ALONE, Crew, shares
from core.streambp import Layout

NOT_SCORED = -100
PAD_ID = 0
BLANK_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows that go through the model at once.

    ``input_ids_BT``; ``target_ids_BT``: the next token where it is trained, else NOT_SCORED.
    """

    input_ids_BT: Tensor
    target_ids_BT: Tensor
    layout: Layout

    @property
    def scored(self) -> tuple[Tensor, Tensor, Layout]:
        """What the engine asks for after the model."""
        return self.input_ids_BT, self.target_ids_BT, self.layout

    @property
    def weight_BT(self) -> Tensor:
        """1.0 where a token is trained."""
        return (self.target_ids_BT != NOT_SCORED).float()


def passes(
    rows: Sequence[Row], tokens_per_pass: int, device: torch.device, crew: Crew = ALONE
) -> Iterator[Pass]:
    """This rank's of ``rows``, longest first, at most ``tokens_per_pass`` padded tokens at once (or one row).

    Every rank makes as many passes: those that it has no rows for score nothing.
    """
    for group in dealt([len(row) for row in rows], tokens_per_pass, crew):
        yield _as_pass([rows[index] for index in group], device) if group else _blank(device)


def largest_passes(
    lengths: Iterable[int], batch_size: int, tokens_per_pass: int
) -> list[tuple[int, int]]:
    """(rows, tokens a row) of passes that no pass of any step over rows of ``lengths`` can exceed in both."""
    longest: dict[int, int] = {}
    for tokens in set(lengths):
        count = min(batch_size, _rows_at_once(tokens, tokens_per_pass))
        longest[count] = max(tokens, longest.get(count, 0))
    return sorted(longest.items())


def target_count(rows: Sequence[Row]) -> int:
    """Trained tokens in ``rows``: the step's normaliser."""
    return sum(row.targets for row in rows)


def grouped(lengths: Sequence[int], tokens_per_pass: int) -> Iterator[list[int]]:
    """Which of the things of these lengths go through together, by index, longest first."""
    left = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    while left:
        size = _rows_at_once(lengths[left[0]], tokens_per_pass)
        yield left[:size]
        left = left[size:]


def dealt(lengths: Sequence[int], tokens_per_pass: int, crew: Crew) -> list[list[int]]:
    """As `grouped`, of this rank's share; empty groups at the end, until all ranks have as many."""
    groups = [
        [
            [share[index] for index in group]
            for group in grouped(_of(lengths, share), tokens_per_pass)
        ]
        for share in shares(lengths, crew.size)
    ]
    mine = groups[crew.rank]
    return mine + [[] for _ in range(max(map(len, groups)) - len(mine))]


def blank_ids(device: torch.device) -> tuple[Tensor, Layout]:
    """A row of padding, for a rank that must walk through the model beside the others."""
    return torch.full((1, BLANK_TOKENS), PAD_ID, device=device), Layout.packed([[2]], BLANK_TOKENS)


def _of(lengths: Sequence[int], share: Sequence[int]) -> list[int]:
    return [lengths[index] for index in share]


def _blank(device: torch.device) -> Pass:
    ids_BT, layout = blank_ids(device)
    return Pass(ids_BT, torch.full_like(ids_BT, NOT_SCORED), layout)


def _rows_at_once(longest: int, tokens_per_pass: int) -> int:
    return max(1, tokens_per_pass // longest)


def _as_pass(rows: list[Row], device: torch.device) -> Pass:
    padded = right_pad(rows, PAD_ID)
    ids_BT = torch.tensor(padded.input_ids, device=device)
    trained_BT = torch.tensor(padded.trained, device=device)
    targets_BT = torch.full_like(ids_BT, NOT_SCORED)
    targets_BT[:, :-1] = torch.where(trained_BT[:, 1:], ids_BT[:, 1:], NOT_SCORED)
    layout = Layout.packed([row.documents for row in rows], ids_BT.shape[1])
    return Pass(ids_BT, targets_BT, layout)
